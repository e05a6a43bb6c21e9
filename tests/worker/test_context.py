"""What a handler may ask its context, in a real worker and in `work_off` alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rota
from rota import App
from rota.core.frames import codec as frames
from rota.core.times import DAY
from rota.process.host import since_boot
from rota.settings import Settings
from rota.testing import work_off
from rota.worker.context import RESERVED
from tests.support.eventually import eventually
from tests.worker.driven import Driven

Start = Callable[..., Driven]

TASKS = '''
@app.task()
def facts(ctx):
    job, run = ctx.job, ctx.previous_runs[0]
    left = ctx.deadline - time.monotonic()
    ctx.state["seen"] = ctx.state.get("seen", 0) + 1
    return [
        [job.id, job.title, job.queue, job.kind, job.payload, job.priority, job.attempt, job.max_attempts],
        [ctx.job_id, ctx.worker_id, ctx.run_id, ctx.token, ctx.attempt, ctx.state, ctx.stopping, ctx.lost],
        [run.run_id, run.worker_id, run.attempt, run.status, run.reason, run.error, run.note],
        50 < left <= 60, ctx.checkpoint, ctx.colour,
    ]

@app.task()
def keep(ctx, value=None):
    before = ctx.checkpoint
    ctx.checkpoint = {"n": 1, "value": value}
    ctx.checkpoint["n"] = 2
    return [before, ctx.checkpoint]

@app.task()
def keep_too_much(ctx):
    ctx.checkpoint = "x" * 262_143

@app.task()
def keep_nonsense(ctx):
    ctx.checkpoint = object()

@app.task()
def overwrite(ctx):
    ctx.token = 5

@app.task()
def misspell(ctx):
    return ctx.colur

@app.task()
def speak(ctx):
    ctx.log("\\ud800 hello")
    ctx.log("x" * 100_000)
    ctx.log(7)
    ctx.progress(3, 10, "files")
    ctx.progress(4)

@app.task()
def speak_nonsense(ctx):
    ctx.progress("many")

@app.task()
def recover(ctx):
    with ctx.recovering(30):
        note("recovering")
        wait_for("go-recover")
    note("recovered")
    wait_for("go-after")

@app.task()
def recover_for_ever(ctx):
    with ctx.recovering(0):
        pass

@app.task()
def watch(ctx):
    """Tell when the claim is lost, when it is renewed, and when the worker should stop."""
    ctx.renew_lease()
    note("renewed")
    while not ctx.lost: time.sleep(0.005)
    try:
        ctx.renew_lease()
    except rota.Stale as problem:
        note(f"lost: {problem}")
    while ctx.lost: time.sleep(0.005)
    ctx.renew_lease()
    note("found")
    while not ctx.stopping: time.sleep(0.005)
    note("stopping")
'''


def run_one(worker: Driven, kind: str, payload: str | None = None, **more: object) -> dict[str, object]:
    job = worker.job(kind, payload, **more)
    worker.run(job)
    return worker.done(job)[0]


def test_it_tells_of_the_job_the_run_and_the_earlier_attempts(start: Start) -> None:
    worker = start(TASKS).is_up()
    earlier = {"run_id": "run-00000002", "worker_id": "worker-x", "attempt": 1, "status": "failed"}
    earlier |= {"reason": None, "error": "no", "note": None}
    told = {"title": "Tell", "queue": "tag", "priority": 5, "attempt": 2, "max_attempts": 4, "timeout": 60_000_000}
    more: dict[str, Any] = {**told, "checkpoint": '{"page":3}', "previous_runs": [earlier]}
    for token in (1, 2):
        done = run_one(worker, "facts", **more)
        assert done["outcome"] == "done", done
        job, run, previous, in_time, checkpoint, colour = json.loads(str(done["result"]))
        assert job == [100 + token, "Tell", "tag", "facts", None, 5, 2, 4]
        assert run == [100 + token, "worker-00000001", f"run-0000000{token}", token, 2, {"seen": 1}, False, False]
        assert previous == ["run-00000002", "worker-x", 1, "failed", None, "no", None]
        assert (in_time, checkpoint, colour) == (True, {"page": 3}, "red")


def test_a_checkpoint_is_sent_when_it_is_assigned_and_only_then(start: Start) -> None:
    worker = start(TASKS).is_up()
    done = run_one(worker, "keep", checkpoint="[1]")
    assert json.loads(str(done["result"])) == [[1], {"n": 1, "value": None}]
    sent = [frame.body for frame in worker.past if frame.kind == frames.CHECKPOINT]
    assert sent == [{"job": 101, "token": 1, "checkpoint": '{"n":1,"value":null}'}]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("keep_too_much", "TooLarge: the checkpoint is too large: 262,145 bytes, at most 262,144"),
        ("keep_nonsense", "BadInput: the checkpoint cannot be written as JSON"),
        ("overwrite", "AttributeError"),
        ("misspell", "ctx has no 'colur'; of your own context it has: colour"),
        ("speak_nonsense", "progress takes numbers, such as progress(3, 10), not 'many'"),
        ("recover_for_ever", "recovering takes a number of seconds, such as 30, not 0"),
    ],
)
def test_a_mistake_fails_the_run_and_says_what_would_be_right(start: Start, kind: str, error: str) -> None:
    worker = start(TASKS).is_up()
    done = run_one(worker, kind)
    assert done["outcome"] == "failed" and error in str(done["error"])
    assert frames.CHECKPOINT not in [frame.kind for frame in worker.past]


def test_log_and_progress_reach_the_orchestrator_and_the_latest_progress_counts(start: Start) -> None:
    worker = start(TASKS, ROTA_FRAME_INTERVAL="50ms").is_up()
    run_one(worker, "speak")
    logs = [frame.body for frame in worker.past if frame.kind == frames.LOG]
    assert [(len(log["message"]), log["run"]) for log in logs] == [
        (7, "run-00000001"),
        (8000, "run-00000001"),
        (1, "run-00000001"),
    ]
    assert logs[0]["message"] == "? hello"
    progress = [frame.body for frame in worker.past if frame.kind == frames.PROGRESS]
    assert progress[0] == {"token": 1, "done": 3, "total": 10, "note": "files"}


def test_progress_that_was_said_too_soon_is_told_with_the_next_beat(start: Start) -> None:
    tasks = "@app.task()\ndef far(ctx):\n    ctx.progress(1)\n    ctx.progress(2, 9)\n    wait_for('go-far')\n"
    worker = start(tasks, ROTA_FRAME_INTERVAL="50ms").is_up()
    worker.run(worker.job("far"))
    worker.next(frames.PROGRESS, done=1)
    assert worker.next(frames.PROGRESS) == {"token": 1, "done": 2, "total": 9, "note": None}
    worker.let_go("far")
    worker.next(frames.DONE)


def test_while_it_recovers_every_beat_says_so(start: Start) -> None:
    worker = start(TASKS, ROTA_FRAME_INTERVAL="50ms").is_up()
    job = worker.job("recover")
    worker.run(job)
    for _ in range(3):
        beat = worker.next(frames.HEALTH, status="recovering")
        assert beat["recover_for_s"] == 30
    worker.let_go("recover")
    assert "recover_for_s" not in worker.next(frames.HEALTH, status="healthy", current_job=job["id"])
    worker.let_go("after")
    worker.done(job)


def test_a_handler_learns_that_its_claim_is_lost_found_again_and_that_it_should_stop(start: Start) -> None:
    worker = start(TASKS).is_up()
    job = worker.job("watch")
    worker.run(job)
    eventually(lambda: "renewed" in worker.ledger())
    worker.send(frames.LOST)
    eventually(lambda: any(line.startswith("lost: the claim on job 101 may be lost") for line in worker.ledger()))
    worker.send(frames.RENEWED, at=since_boot())
    eventually(lambda: "found" in worker.ledger())
    worker.send(frames.STOP)
    assert worker.done(job)[0]["outcome"] == "done"
    assert worker.wait() == 0


# the application's own context


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_name_of_ours_is_refused(name: str) -> None:
    with pytest.raises(rota.BadInput, match=rf"ctx\.{name} is rota's own"):
        App(context={name: 1})


@pytest.mark.parametrize("name", ["_job", "two words", "", 7])
def test_a_name_that_no_attribute_can_have_is_refused(name: str) -> None:
    with pytest.raises(rota.BadInput, match="cannot be an attribute of ctx"):
        App(context={name: 1})


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(
        f"sqlite:///{tmp_path}/jobs.db", Settings(backoff_first=DAY, backoff_most=DAY), context={"colour": "red"}
    )


def test_work_off_gives_the_same_context(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    @app.setup()
    def load() -> None:
        app.context["model"] = app.context.get("model", 0) + 1

    @app.task(timeout="1m")
    def tell(page: int, ctx: rota.Context) -> list[object]:
        ctx.log("hello")
        ctx.progress(1, 2)
        ctx.renew_lease()
        with ctx.recovering(30):
            pass
        assert ctx.deadline is not None
        return [ctx.job.payload, ctx.job_id, ctx.attempt, ctx.colour, ctx.model, ctx.stopping, ctx.lost, ctx.state]

    new = rota.NewJob("x", kind="tell", timeout=60_000_000)
    first, second = app.enqueue_many(new.replace(payload={"page": page}) for page in (1, 2))
    work_off(app)
    assert first.get().result == [{"page": 1}, 1, 1, "red", 1, False, False, {}]
    assert second.get().result == [{"page": 2}, 2, 1, "red", 1, False, False, {}]
    assert "hello" in capsys.readouterr().out


def test_in_work_off_a_checkpoint_survives_the_attempt_and_the_next_knows_of_both(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db", Settings(backoff_first=1000, backoff_most=1000))

    @app.task()
    def step(ctx: rota.Context) -> list[object]:
        if ctx.checkpoint is None:
            ctx.checkpoint = {"page": 3}
            raise ValueError("once more")
        return [ctx.checkpoint, ctx.attempt, [(run.status, run.error) for run in ctx.previous_runs]]

    job = app.enqueue(rota.NewJob("x", kind="step"))
    eventually(lambda: [ended for ended in work_off(app) if ended.status == "done"])
    checkpoint, attempt, ((status, error),) = job.get().result
    assert (checkpoint, attempt, status) == ({"page": 3}, 2, "failed")
    assert "ValueError: once more" in error


def test_a_checkpoint_of_a_claim_that_was_lost_is_refused(app: App) -> None:
    @app.task()
    def tag() -> None: ...

    job = tag.enqueue()
    worker = app.workers.register("by hand")
    claim = app.claims.take(worker.id)
    app.claims.checkpoint(claim, [1])
    app.claims.release(claim)
    with pytest.raises(rota.Stale):
        app.claims.checkpoint(claim, [2])
    assert job.get().checkpoint == [1]
