"""A worker life on its pipe: a real process, with the test as its orchestrator."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from rota.core.frames import codec as frames
from rota.core.orchestrator import END_AFTER, LEASE
from rota.core.times import SECOND
from rota.process.host import since_boot
from tests.support.crews import states
from tests.support.eventually import eventually
from tests.support.processes import resident
from tests.worker.driven import Driven

Start = Callable[..., Driven]


def test_it_says_hello_and_is_healthy_once_its_setup_is_over(start: Start) -> None:
    worker = start(queue="slow")
    hello = worker.next(frames.HELLO)
    assert (hello["component_id"], hello["protocol"]) == ("worker:slow:0", 1)
    assert {"double", "hold", "broken"} <= set(hello["tasks"])
    eventually(lambda: "setup slow" in worker.ledger())
    assert worker.heard == []
    worker.let_go("setup")
    assert worker.next(frames.HEALTH) == {"component_id": "worker:slow:0", "status": "healthy", "current_job": None}


def test_jobs_run_in_order_and_each_is_reported(start: Start) -> None:
    worker = start().is_up()
    jobs = [worker.job("double", f'{{"n":{n}}}') for n in range(3)]
    worker.run(*jobs)
    assert [done["result"] for done in worker.done(*jobs)] == ["0", "2", "4"]


def test_a_job_of_which_only_id_token_and_kind_are_told_runs_too(start: Start) -> None:
    worker = start("@app.task()\ndef bare(ctx):\n    return [ctx.attempt, ctx.job.queue, ctx.deadline]\n").is_up()
    worker.send(frames.RUN, jobs=[{"id": 1, "token": 9, "kind": "bare"}, {"id": 2, "token": 10, "kind": "broken"}])
    assert worker.next(frames.DONE)["result"] == '[1,"default",null]'
    assert worker.next(frames.DONE)["outcome"] == "failed"


def test_what_makes_no_sense_is_ignored_and_the_next_job_runs(start: Start) -> None:
    worker = start().is_up()
    worker.pipe.sendall(b"\xff\x00RUN|\nRUN|[1]\nSHOUT|{}\nRUN|{" + b"x" * 2_000_000 + b"}\n")
    worker.send(frames.RUN, jobs=7)
    worker.send(frames.RUN, jobs=[7, {"id": 1}, {"id": "a", "token": 1, "kind": "double"}, {"id": 1, "token": 2}])
    worker.send(frames.RUN, jobs=[{"id": 1, "token": 2, "kind": "double", "timeout": "x"}], settled="x", renewed_at=[])
    worker.send(frames.RENEWED, at="yesterday")
    good = worker.job("double", '{"n":4}')
    worker.run(good)
    assert worker.done(good)[0]["result"] == "8"


def test_a_worker_does_not_grow_with_the_jobs_that_it_has_run(start: Start) -> None:
    """What it knows of its last jobs has a bound, and so has what its environment tells of them."""
    worker = start("@app.task()\ndef nothing():\n    pass\n").is_up()

    def run(batches: int) -> int:
        for _ in range(batches):
            jobs = [worker.job("nothing") for _ in range(500)]
            worker.run(*jobs)
            worker.done(*jobs)
        return resident(worker.process.pid)

    before = run(10)
    assert run(50) - before < 25_000 * 40, "bytes; a value of its environment for each job would be twice as much"


def test_what_waited_for_longer_than_a_lease_goes_back_and_is_not_begun(start: Start) -> None:
    """A worker that was stopped, or whose host slept, finds jobs in its pipe that others have by now."""
    worker = start().is_up()
    lost, also_lost, held = worker.job("double"), worker.job("double"), worker.job("double")
    worker.run(lost, also_lost, renewed_at=since_boot() - LEASE)
    assert answer(worker) == (frames.RETURNED, [lost["token"], also_lost["token"]])
    worker.run(held, renewed_at=since_boot() - LEASE + 10 * SECOND)
    assert worker.next(frames.DONE)["token"] == held["token"], "nothing was done before"


def test_a_worker_that_was_stopped_begins_nothing_that_it_was_handed_before(start: Start) -> None:
    worker = start().is_up()
    worker.signal(signal.SIGSTOP)
    eventually(lambda: set(states(worker.process.pid)) == {"T"})
    waiting, renewed_at = worker.job("double"), since_boot() - LEASE + SECOND
    worker.run(waiting, renewed_at=renewed_at)
    eventually(lambda: since_boot() >= renewed_at + LEASE)
    worker.signal(signal.SIGCONT)
    assert answer(worker) == (frames.RETURNED, [waiting["token"]])


def answer(worker: Driven) -> tuple[str, object]:
    """Whether it gave jobs back, and which, or has done one."""
    heard = worker.hear(lambda frame: frame.kind in (frames.RETURNED, frames.DONE), "an answer")
    return heard.kind, heard.body.get("tokens")


def test_a_recall_is_answered_with_what_was_not_started(start: Start) -> None:
    worker = start().is_up()
    held, *waiting = [worker.job("hold", '{"name":"a"}'), worker.job("double"), worker.job("double")]
    worker.run(held, *waiting)
    worker.holds("a")
    worker.send(frames.RECALL)
    assert worker.next(frames.RETURNED)["tokens"] == [job["token"] for job in waiting]
    worker.send(frames.RECALL)
    assert worker.next(frames.RETURNED)["tokens"] == []
    worker.let_go("a")
    assert worker.done(held)[0]["result"] == '"a"'
    assert "setup default" in worker.ledger()[0] and worker.ledger()[1:] == ["hold a"]


def test_it_beats_as_often_as_the_setting_says_with_its_job_and_though_frames_never_pause(start: Start) -> None:
    worker = start(ROTA_FRAME_INTERVAL="50ms").is_up()
    held = worker.job("hold", '{"name":"b"}')
    worker.run(held)
    for _ in range(3):
        worker.next(frames.HEALTH, current_job=held["id"])
    seen = len(worker.past)

    def has_beaten() -> bool:
        worker.send(frames.RECALL)
        worker.next(frames.RETURNED)
        return sum(frame.kind == frames.HEALTH for frame in worker.past[seen:]) >= 3

    eventually(has_beaten, every=0)
    worker.let_go("b")
    worker.done(held)
    worker.next(frames.HEALTH, current_job=None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_leaves_at_once_when_it_is_signalled(start: Start, number: signal.Signals) -> None:
    worker = start().is_up()
    worker.signal(number)
    assert worker.wait() == 0
    assert [frame.body["status"] for frame in worker.rest() if frame.kind == frames.HEALTH][-1] == "stopping"


def test_however_often_it_is_signalled_the_job_in_hand_is_finished_and_the_rest_goes_back(start: Start) -> None:
    worker = start().is_up()
    held, waiting = worker.job("hold", '{"name":"c"}'), worker.job("double")
    worker.run(held, waiting)
    worker.holds("c")
    for _ in range(5):
        worker.signal(signal.SIGTERM)
    assert worker.next(frames.RETURNED)["tokens"] == [waiting["token"]]
    worker.next(frames.HEALTH, status="stopping", current_job=held["id"])
    late = worker.job("double")
    worker.run(late)
    assert worker.next(frames.RETURNED)["tokens"] == [late["token"]]
    worker.signal(signal.SIGINT)
    worker.let_go("c")
    assert worker.done(held)[0]["outcome"] == "done"
    assert worker.wait() == 0


def test_a_stop_frame_means_the_same(start: Start) -> None:
    worker = start().is_up()
    held, waiting = worker.job("hold", '{"name":"d"}'), worker.job("double")
    worker.run(held, waiting)
    worker.holds("d")
    worker.send(frames.STOP, now=False)
    assert worker.next(frames.RETURNED)["tokens"] == [waiting["token"]]
    worker.let_go("d")
    assert worker.done(held)[0]["outcome"] == "done"
    assert worker.wait() == 0


@pytest.mark.parametrize("how", ["signal", "frame"])
def test_a_worker_that_is_still_in_its_setup_leaves_at_once(start: Start, how: str) -> None:
    worker = start(queue="slow")
    eventually(lambda: "setup slow" in worker.ledger())
    if how == "signal":
        worker.signal(signal.SIGTERM)
    else:
        worker.send(frames.STOP)
    assert worker.wait() == 0


STUBBORN = """
@app.task()
def tidy(name):
    try:
        note("working")
        try:
            wait_for("never")
        except Exception:
            note("caught")
    finally:
        note("tidied up")

@app.task()
def clumsy():
    try:
        note("working")
        wait_for("never")
    finally:
        raise ValueError("the clean-up failed")

@app.task()
def talkative(ctx):
    note("working")
    while True:
        ctx.log("x" * 4000)
"""


@pytest.mark.parametrize(("kind", "left"), [("tidy", "tidied up"), ("clumsy", None)])
def test_when_the_time_is_over_the_handler_is_interrupted_and_its_job_released(
    start: Start, kind: str, left: str | None
) -> None:
    worker = start(STUBBORN).is_up()
    held = worker.job(kind, '{"name":"e"}' if kind == "tidy" else None)
    worker.run(held)
    eventually(lambda: "working" in worker.ledger())
    worker.send(frames.STOP, now=True)
    done = worker.done(held)[0]
    assert (done["outcome"], done["note"]) == ("released", "the worker stopped before this was finished")
    assert worker.wait() == 0
    assert "caught" not in worker.ledger()
    assert left is None or left in worker.ledger()


def test_an_interrupted_handler_never_cuts_a_frame(start: Start) -> None:
    worker = start(STUBBORN).is_up()
    held = worker.job("talkative")
    worker.run(held)
    worker.next(frames.LOG)
    worker.send(frames.STOP, now=True)
    assert worker.done(held)[0]["outcome"] == "released"
    assert worker.wait() == 0


def test_a_stop_that_means_now_starts_nothing(start: Start) -> None:
    worker = start().is_up()
    worker.pipe.sendall(
        frames.encode(frames.RUN, {"jobs": [worker.job("hold", '{"name":"never"}')]})
        + frames.encode(frames.STOP, {"now": True})
    )
    told = [frame for frame in worker.rest() if frame.kind in (frames.DONE, frames.RETURNED)]
    assert worker.wait() == 0
    assert [frame.body.get("outcome", "returned") for frame in told] in (["released"], ["returned"])


@pytest.mark.parametrize("how", ["KeyboardInterrupt", "SystemExit", "GeneratorExit"])
def test_whatever_a_handler_raises_its_worker_lives(start: Start, how: str) -> None:
    worker = start(f"@app.task()\ndef leave():\n    raise {how}()\n").is_up()
    left, after = worker.job("leave"), worker.job("double", '{"n":1}')
    worker.run(left, after)
    first, second = worker.done(left, after)
    assert first["outcome"] == "failed" and how in first["error"] and first["again"]
    assert second["outcome"] == "done"


def test_text_that_utf8_cannot_hold_and_errors_without_end_reach_the_orchestrator(start: Start) -> None:
    worker = start(
        "@app.task()\ndef half():\n    return '\\ud800'\n"
        "@app.task()\ndef odd():\n    raise OSError('\\udcff')\n"
        "@app.task()\ndef long():\n    raise ValueError('x' * 5_000_000)\n"
        "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\n"
        "@app.task()\ndef mute():\n    raise Mute()\n"
    ).is_up()
    jobs = [worker.job(kind) for kind in ("half", "odd", "long", "mute")]
    worker.run(*jobs)
    half, odd, long, mute = worker.done(*jobs)
    assert "half of a surrogate pair" in half["error"]
    assert "OSError: ?" in odd["error"]
    assert 9_000 < len(long["error"]) < 20_000 and "shop.py, in long" in long["error"]
    assert "Mute" in mute["error"]


def test_ten_errors_in_a_row_end_it_and_what_waits_goes_back(start: Start) -> None:
    worker = start().is_up()
    jobs = [worker.job("broken") for _ in range(9)]
    jobs += [worker.job("double", '{"n":1}')] + [worker.job("broken") for _ in range(12)]
    worker.run(*jobs)
    assert worker.wait() == 81
    told = worker.rest()
    assert [frame.body["token"] for frame in told if frame.kind == frames.DONE] == [job["token"] for job in jobs[:20]]
    assert [frame.body["tokens"] for frame in told if frame.kind == frames.RETURNED] == [[21, 22]]


def test_a_setup_that_fails_says_so_and_has_its_own_exit_code(start: Start) -> None:
    worker = start(queue="bad")
    assert worker.wait() == 80
    assert "setup of queue bad failed: ValueError: no such model" in worker.errors()
    assert frames.HEALTH not in [frame.kind for frame in worker.rest()]


@pytest.mark.parametrize("app", ["shop", "shop:nothing", ":x"])
def test_an_app_that_is_not_there_is_a_mistake_and_no_traceback(start: Start, app: str) -> None:
    worker = start(ROTA_APP=app)
    assert worker.wait() == 80
    assert "shop:app" in worker.errors() or "shop has no App called 'nothing'" in worker.errors()
    assert "Traceback" not in worker.errors()


def test_a_setting_that_makes_no_sense_is_told(start: Start) -> None:
    worker = start(ROTA_MAX_JOBS="many")
    assert worker.wait() == 80
    assert "max_jobs (from environment) must be a whole number" in worker.errors()


def test_the_setup_of_another_queue_runs_once_before_its_first_job(start: Start) -> None:
    worker = start("@app.task()\ndef model(ctx):\n    note('job')\n    return ctx.model\n").is_up()
    jobs = [worker.job("model", queue="tag"), worker.job("model", queue="tag")]
    worker.run(*jobs)
    assert [done["result"] for done in worker.done(*jobs)] == ['"m1"', '"m1"']
    assert worker.ledger()[1:] == ["setup tag", "job", "job"]


def test_when_the_setup_of_another_queue_fails_everything_goes_back(start: Start) -> None:
    worker = start().is_up()
    first, bad, waiting = worker.job("double", '{"n":1}'), worker.job("double", queue="bad"), worker.job("double")
    worker.run(first, bad, waiting)
    worker.done(first)
    assert worker.next(frames.RETURNED)["tokens"] == [bad["token"], waiting["token"]]
    assert worker.wait() == 80


def test_a_setup_that_takes_a_name_of_ours_has_failed(start: Start) -> None:
    worker = start(queue="greedy")
    assert worker.wait() == 80
    assert "ctx.token is rota's own" in worker.errors()


def test_after_so_many_jobs_it_is_recycled_and_what_waits_goes_back(start: Start) -> None:
    worker = start(ROTA_MAX_JOBS="3").is_up()
    jobs = [worker.job("double", '{"n":1}') for _ in range(5)]
    worker.run(*jobs)
    worker.done(*jobs[:3])
    assert worker.next(frames.RETURNED)["tokens"] == [4, 5]
    worker.next(frames.HEALTH, status="stopping")
    assert worker.wait() == 83


GROW = """
kept = []

@app.task()
def grow(megabytes):
    kept.append(b"x" * (megabytes << 20))
    time.sleep(0.03)
"""


def test_a_worker_that_grew_too_large_is_recycled_after_its_job(start: Start) -> None:
    worker = start(GROW, ROTA_MAX_RSS="100").is_up()
    small, large, waiting = (worker.job("grow", f'{{"megabytes":{size}}}') for size in (1, 100, 1))
    worker.run(small, large, waiting)
    worker.done(small, large)
    assert worker.next(frames.RETURNED)["tokens"] == [waiting["token"]]
    assert worker.wait() == 83


def test_a_worker_knows_no_store_and_stays_small(start: Start) -> None:
    worker = start(
        "from rota.worker.runtime import resident\n"
        "@app.task()\ndef inside():\n"
        "    heavy = ('apsw', 'rota.store', 'rota.worker.orphan.helper', 'dataclasses', 'logging', 'asyncio')\n"
        "    heavy += ('subprocess',)\n"
        "    return [[m for m in sys.modules if m.startswith(heavy)], resident()]\n"
    ).is_up()
    job = worker.job("inside")
    worker.run(job)
    loaded, size = json.loads(worker.done(job)[0]["result"])
    assert loaded == []
    assert size < 30_000_000


CHATTER = """
@app.task()
def chatter(ctx):
    for n in range(2000):
        ctx.log(f"{n} " + "x" * 1000)
        ctx.progress(n, 2000)
    note("chattered")
"""


def test_while_nobody_reads_reports_are_dropped_whole_and_an_outcome_waits(start: Start) -> None:
    worker = start(CHATTER).is_up()
    chatter, after = worker.job("chatter"), worker.job("hold", '{"name":"f"}')
    worker.run(chatter, after)
    eventually(lambda: "chattered" in worker.ledger())
    eventually(lambda: set(states(worker.process.pid)) == {"S"})
    assert "hold f" not in worker.ledger(), "the next job does not start before the outcome is told"
    worker.let_go("f")
    assert [done["outcome"] for done in worker.done(chatter, after)] == ["done", "done"]
    said = [int(frame.body["message"].split()[0]) for frame in worker.past if frame.kind == frames.LOG]
    assert 10 < len(said) < 2000
    assert said == sorted(said)


def test_a_fenced_worker_without_word_of_a_renewal_ends_its_session(start: Start) -> None:
    worker = start(ROTA_FRAME_INTERVAL="1m", ROTA_SILENT_INTERVAL="2m").is_up()
    worker.run(worker.job("hold", '{"name":"g"}', fence="end"), renewed_at=since_boot() - END_AFTER + 500_000)
    assert worker.wait() == -signal.SIGKILL


def test_a_fenced_worker_that_was_stopped_hears_what_was_said_meanwhile_before_it_ends_itself(start: Start) -> None:
    worker = start().is_up()
    job, renewed_at = worker.job("hold", '{"name":"h"}', fence="end"), since_boot() - END_AFTER + 4_000_000
    worker.run(job, renewed_at=renewed_at)
    worker.holds("h")
    worker.signal(signal.SIGSTOP)
    worker.send(frames.RENEWED, at=since_boot())
    eventually(lambda: since_boot() > renewed_at + END_AFTER)
    worker.signal(signal.SIGCONT)
    worker.let_go("h")
    assert worker.done(job)[0]["outcome"] == "done"
