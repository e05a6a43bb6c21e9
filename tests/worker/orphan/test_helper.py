"""A worker whose orchestrator was killed finishes its job, settles it with its token, and leaves."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done
from rota.core.frames import codec as frames
from rota.core.times import SECOND
from rota.core.worker import Dead
from rota.process.host import is_stopped
from rota.store.maintenance import tick
from rota.store.workers import orphans
from tests.support.eventually import eventually
from tests.support.stores import STORES
from tests.worker.abandoned import Abandoned, is_alive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.crew

TASKS = '''
@app.task()
def paged(ctx, name):
    """Keep a checkpoint before and after the orchestrator is gone."""
    ctx.checkpoint = [name, 1]
    note(f"hold {name}")
    wait_for(f"go-{name}")
    ctx.checkpoint = [name, 2]
    print("printed to nobody", file=sys.stderr, flush=True)
    note("kept")
    wait_for("go-end")
    raise rota.Snooze("1h")

@app.task()
def family(name):
    """Start a child in the same session."""
    import subprocess
    child = subprocess.Popen(["sleep", "300"])
    note(f"child {child.pid}")
    note(f"hold {name}")
    wait_for(f"go-{name}")

@app.task()
def greedy(name):
    """Open more files than select can count."""
    import resource
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    kept = [open(os.devnull) for _ in range(1100)]
    note(f"hold {name}")
    wait_for(f"go-{name}")

@app.task()
def stands(name):
    """Once no job is served any more, stand still."""
    main = threading.main_thread().ident
    def serves(frame):
        return frame is not None and (frame.f_code.co_name == "_serve" or serves(frame.f_back))
    def stand():
        while serves(sys._current_frames()[main]): time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGSTOP)
    threading.Thread(target=stand, daemon=True).start()
    note(f"hold {name}")
    wait_for(f"go-{name}")

@app.task()
def spoils(name):
    """Write into every socket before the outcome is told."""
    import contextlib, socket, stat
    note(f"hold {name}")
    wait_for(f"go-{name}")
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                os.write(number, b"stray")

@app.task()
def parting(name):
    """Say when it is over."""
    note(f"hold {name}")
    wait_for(f"go-{name}")
    note(f"over {name}")

@app.task()
def noted(n):
    note(f"noted {n}")

@app.task()
def wanders(name, folder):
    os.chdir(folder)
    note(f"hold {name}")
    wait_for(f"go-{name}")

@app.task()
def stopped(ctx, name):
    note(f"hold {name}")
    while not ctx.stopping: time.sleep(0.005)
    note("stopping")
    wait_for(f"go-{name}")

@app.task()
def told(ctx, name):
    note(f"hold {name}")
    while not ctx.lost: time.sleep(0.005)
    note("lost")
    while ctx.lost: time.sleep(0.005)
    note("found")
    wait_for(f"go-{name}")
'''


@pytest.fixture(params=STORES)
def crew(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Abandoned]:
    crew = Abandoned(tmp_path, request.param, TASKS)
    yield crew
    crew.end()


@pytest.mark.both_stores
def test_the_job_in_hand_is_finished_and_committed_once(crew: Abandoned) -> None:
    job = crew.add("hold", payload={"name": "a"})
    crew.start()
    crew.holds("a")
    token = crew.job(job).token
    crew.orphan()
    eventually(crew.is_alone)
    held = crew.job(job)
    assert (held.status, held.token, held.worker_id, held.orchestrator) == ("active", token, crew.worker_id, None)
    assert held.lease == 15 * SECOND and held.lease_expires_at is not None
    assert crew.worker().heartbeat_interval == 7_500_000 and crew.worker().slot == "worker:default:0"
    crew.let_go("a")
    eventually(crew.is_over)
    done = crew.job(job)
    assert (done.status, done.result, done.attempts, done.deaths, done.token) == ("done", "a", 1, 0, token)
    assert [run.verb for run in crew.store.claims.runs(job)] == ["finish"]
    assert crew.worker().status == "stopped"
    certificate = crew.store.workers.certificate(crew.worker_id)
    assert certificate is not None
    assert (certificate.reason, certificate.exit_code, certificate.signal) == ("exited", 82, None)
    assert certificate.text == "finished alone after its orchestrator was gone"
    assert [(slot.status, slot.worker) for slot in crew.store.slots.all()] == [("empty", None)]
    assert crew.helper() == 0


@pytest.mark.both_stores
def test_what_waits_is_not_started_and_goes_back_unspent_and_what_was_told_is_settled(crew: Abandoned) -> None:
    first, held, *waiting = (
        crew.add("double", payload={"n": 4}),
        crew.add("hold", payload={"name": "b"}),
        *(crew.add("double", payload={"n": n}) for n in range(3)),
    )
    crew.start(room=5)
    crew.holds("b")
    assert crew.job(first).status == "active", "reported, and not settled"
    crew.orphan()
    eventually(crew.is_alone)
    assert (crew.job(first).status, crew.job(first).result) == ("done", 8)
    assert [(crew.job(id).status, crew.job(id).attempts) for id in waiting] == [("ready", 0)] * 3
    assert [crew.store.claims.runs(id) for id in waiting] == [[]] * 3
    crew.let_go("b")
    eventually(crew.is_over)
    assert crew.job(held).status == "done"


@pytest.mark.parametrize("wait", [False, True])
def test_with_nothing_in_hand_what_was_told_is_settled_and_the_rest_goes_back(crew: Abandoned, wait: bool) -> None:
    jobs = [crew.add("noted", payload={"n": n}) for n in range(20)]
    crew.start(room=20)
    eventually(lambda: not wait or crew.ledger()[1:] == [f"noted {n}" for n in range(20)])
    crew.orphan()
    eventually(crew.is_over)
    ran = [line for line in crew.ledger() if line.startswith("noted")]
    assert [crew.job(id).status for id in jobs] == ["done"] * len(ran) + ["ready"] * (20 - len(ran))
    assert [crew.job(id).attempts for id in jobs] == [1] * len(ran) + [0] * (20 - len(ran))
    assert crew.worker().status == "stopped"


def test_with_nothing_at_all_it_leaves_at_once_and_alone(crew: Abandoned) -> None:
    crew.start()
    crew.orphan()
    eventually(crew.is_gone)
    assert crew.worker().status == "idle", "nobody wrote anything: its orchestrator's lease lapses"


def test_what_is_known_to_be_committed_is_not_told_again(crew: Abandoned) -> None:
    first, then = crew.add("double", payload={"n": 1}), crew.add("stopped", payload={"name": "o"})
    crew.start(room=2)
    crew.holds("o")
    token = crew.job(first).token
    crew.say(frames.RUN, jobs=[], settled=token)
    crew.say(frames.STOP)
    eventually(lambda: "stopping" in crew.ledger())
    crew.orphan()
    eventually(crew.is_alone)
    assert (crew.job(first).status, crew.job(first).attempts) == ("ready", 0), "nobody told of it again"
    crew.let_go("o")
    eventually(crew.is_over)
    assert crew.job(then).status == "done"


def test_checkpoints_of_before_and_after_are_kept_and_any_outcome_counts(crew: Abandoned) -> None:
    job = crew.add("paged", payload={"name": "c"})
    crew.start()
    crew.holds("c")
    crew.orphan()
    eventually(crew.is_alone)
    assert crew.job(job).checkpoint == ["c", 1]
    crew.let_go("c")
    eventually(lambda: "kept" in crew.ledger())
    eventually(lambda: crew.job(job).checkpoint == ["c", 2])
    crew.let_go("end")
    eventually(crew.is_over)
    assert (crew.job(job).status, crew.job(job).attempts) == ("scheduled", 0)


@pytest.mark.both_stores
def test_an_outcome_that_is_spoiled_on_its_way_to_the_helper_fails_the_job_and_the_worker_leaves(
    crew: Abandoned,
) -> None:
    crew.env["ROTA_FRAME_INTERVAL"] = "100ms"
    job = crew.add("spoils", payload={"name": "a"})
    crew.start()
    crew.holds("a")
    crew.orphan()
    eventually(crew.is_alone)
    crew.let_go("a")
    eventually(crew.is_over)
    assert "its outcome was lost" in (crew.job(job).error or "")
    assert [run.verb for run in crew.store.claims.runs(job)] == ["fail"]


def test_an_orphan_that_dies_is_certified_and_its_job_goes_back(crew: Abandoned) -> None:
    job = crew.add("family", payload={"name": "d"})
    crew.start()
    crew.holds("d")
    child = int(crew.ledger()[1].split()[1])
    crew.orphan()
    eventually(crew.is_alone)
    os.kill(crew.pid, signal.SIGKILL)
    eventually(crew.is_over)
    assert not is_alive(child)
    ready = crew.job(job)
    assert (ready.status, ready.attempts, ready.deaths) == ("ready", 1, 1)
    assert crew.worker().status == "dead"
    certificate = crew.store.workers.certificate(crew.worker_id)
    assert certificate is not None
    assert (certificate.reason, certificate.job) == ("lost", job)
    assert certificate.text == "died after its orchestrator was gone"


def test_an_orphan_is_ended_at_its_jobs_time_out_with_all_it_started(crew: Abandoned) -> None:
    job = crew.add("family", payload={"name": "e"}, timeout=2 * SECOND)
    crew.start()
    crew.holds("e")
    child = int(crew.ledger()[1].split()[1])
    crew.orphan()
    eventually(crew.is_over)
    assert not is_alive(child)
    run = crew.store.claims.runs(job)[0]
    assert (run.verb, run.reason, run.error) == ("fail", "timeout", "ran past its time-out")
    assert crew.job(job).status == "scheduled"
    certificate = crew.store.workers.certificate(crew.worker_id)
    assert certificate is not None and certificate.reason == "deadline"


def test_an_orphan_whose_job_was_called_off_is_ended(crew: Abandoned) -> None:
    job = crew.add("hold", payload={"name": "f"})
    crew.start()
    crew.holds("f")
    crew.orphan()
    eventually(crew.is_alone)
    crew.store.jobs.cancel(job)
    eventually(crew.is_over)
    assert (crew.job(job).status, crew.worker().status) == ("cancelled", "dead")


@pytest.mark.both_stores
def test_an_orphan_whose_job_another_took_is_ended_and_changes_nothing(crew: Abandoned) -> None:
    job = crew.add("hold", payload={"name": "g"})
    crew.start()
    crew.holds("g")
    os.kill(crew.pid, signal.SIGSTOP)
    crew.orphan()
    with crew.store.write() as tx:
        tx.execute("orchestrator.end", id=1)
    with crew.store.write() as tx:
        tick.mark_dead(crew.store, tx, crew.worker_id, Dead("lost", "judged by another"))
    claim = crew.store.claims.take(crew.store.workers.register("another").id)
    os.kill(crew.pid, signal.SIGCONT)
    eventually(crew.is_gone)
    eventually(lambda: crew.store.slots.all()[0].status == "empty")
    held = crew.job(job)
    assert (held.status, held.token, held.worker_id) == ("active", claim.token, claim.worker_id)
    certificate = crew.store.workers.certificate(crew.worker_id)
    assert certificate is not None and certificate.text == "judged by another"
    crew.store.claims.settle(claim, Done())


def test_a_killed_helper_is_replaced_and_nothing_is_lost(crew: Abandoned) -> None:
    job = crew.add("hold", payload={"name": "h"})
    crew.start()
    crew.holds("h")
    crew.orphan()
    for _ in range(3):
        before = eventually(crew.helper)
        os.kill(before, signal.SIGKILL)
        eventually(lambda before=before: crew.helper() not in (0, before))  # type: ignore[misc]
    eventually(crew.is_alone)
    crew.let_go("h")
    eventually(crew.is_over)
    assert (crew.job(job).status, crew.job(job).attempts) == ("done", 1)


def test_a_helper_killed_after_the_job_is_replaced_three_times(crew: Abandoned) -> None:
    job = crew.add("parting", payload={"name": "h"})
    crew.start()
    crew.holds("h")
    crew.orphan()
    eventually(crew.is_alone)
    with crew.store.write(exclusive=True):  # so that nobody can settle it meanwhile
        crew.let_go("h")
        eventually(lambda: "over h" in crew.ledger())
        for _ in range(3):
            before = eventually(crew.helper)
            os.kill(before, signal.SIGKILL)
            eventually(lambda before=before: crew.helper() not in (0, before))  # type: ignore[misc]
    eventually(crew.is_over)
    assert (crew.job(job).status, crew.job(job).attempts) == ("done", 1)


@pytest.mark.parametrize("busy", [True, False])
def test_an_orphan_that_stands_still_is_ended_whether_or_not_it_has_a_job(crew: Abandoned, busy: bool) -> None:
    job = crew.add("stands", payload={"name": "n"})
    crew.env = {"ROTA_FRAME_INTERVAL": "50ms", "ROTA_SILENT_INTERVAL": "200ms"}
    crew.start()
    crew.holds("n")
    crew.orphan()
    eventually(crew.is_alone)
    helper = crew.helper()
    os.kill(helper, signal.SIGSTOP)  # so that it does not let the worker go
    if busy:
        os.kill(crew.pid, signal.SIGSTOP)
    else:
        crew.let_go("n")
    eventually(lambda: is_stopped(crew.pid))
    os.kill(helper, signal.SIGCONT)
    eventually(crew.is_over)
    eventually(lambda: not is_alive(helper))
    assert crew.job(job).status == ("ready" if busy else "done")
    certificate = crew.store.workers.certificate(crew.worker_id)
    assert certificate is not None and certificate.reason == "heartbeat_timeout"


def test_the_lease_is_renewed_and_the_worker_beats_as_long_as_the_job_takes(crew: Abandoned) -> None:
    job = crew.add("hold", payload={"name": "i"})
    crew.start()
    crew.holds("i")
    crew.orphan()
    eventually(crew.is_alone)
    before = crew.job(job).lease_expires_at or 0
    eventually(lambda: (crew.job(job).lease_expires_at or 0) > before)
    assert crew.job(job).renewed_count >= 1 and crew.worker().heartbeat_count >= 1
    crew.let_go("i")
    eventually(crew.is_over)
    assert crew.job(job).status == "done"


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)  # a server that is away is among the faults
def test_while_the_store_is_away_the_handler_is_told_and_nothing_is_lost(crew: Abandoned) -> None:
    job = crew.add("told", payload={"name": "j"})
    crew.start()
    crew.holds("j")
    os.rename(crew.url, crew.url + ".away")
    crew.orphan()
    eventually(lambda: "lost" in crew.ledger())
    os.rename(crew.url + ".away", crew.url)
    eventually(lambda: "found" in crew.ledger())
    crew.let_go("j")
    eventually(crew.is_over)
    assert (crew.job(job).status, crew.job(job).attempts) == ("done", 1)


def test_a_fenced_job_ends_its_own_session_when_nobody_renews(crew: Abandoned) -> None:
    """Its orchestrator is stopped, not gone: there is no end of file, and no word of a renewal."""
    job = crew.add("family", payload={"name": "k"})
    crew.start(fence="end")
    crew.holds("k")
    child = int(crew.ledger()[1].split()[1])
    eventually(lambda: crew.is_gone() and not is_alive(child))
    assert crew.job(job).status == "active", "its orchestrator's lease has not lapsed yet"


@pytest.mark.both_stores
def test_moving_the_claims_of_an_orphan_again_changes_nothing(crew: Abandoned) -> None:
    job = crew.add("hold", payload={"name": "l"})
    crew.start()
    crew.holds("l")
    with crew.store.write() as tx:
        orphans.move_to_lease(tx, crew.worker_id)
    moved, worker = crew.job(job), crew.worker()
    with crew.store.write() as tx:
        orphans.move_to_lease(tx, crew.worker_id)
    assert (crew.job(job), crew.worker()) == (moved, worker)
    assert moved.orchestrator is None and worker.orchestrator is None
    crew.orphan()
    crew.let_go("l")
    eventually(crew.is_over)
    assert (crew.job(job).status, crew.job(job).attempts) == ("done", 1)


def test_an_orphan_with_more_open_files_than_most_goes_on_too(crew: Abandoned) -> None:
    job = crew.add("greedy", payload={"name": "m"})
    crew.start()
    crew.holds("m")
    crew.orphan()
    eventually(crew.is_alone)
    crew.let_go("m")
    eventually(crew.is_over)
    assert (crew.job(job).status, crew.job(job).attempts) == ("done", 1)


def test_nothing_in_a_folder_that_the_handler_has_gone_to_is_imported_or_read(crew: Abandoned) -> None:
    """A handler may work in a checkout that nobody has looked at yet."""
    checkout = crew.folder / "checkout"
    (checkout / "rota").mkdir(parents=True)
    hostile = f"open({str(crew.folder / 'ran')!r}, 'w')\n"
    for name in ("rota/__init__.py", "json.py", "selectors.py", "apsw.py", "sitecustomize.py"):
        (checkout / name).write_text(hostile)
    (checkout / "rota.toml").write_text("shutdown_timeout = 'nonsense'")
    job = crew.add("wanders", payload={"name": "a", "folder": str(checkout)})
    crew.start()
    crew.holds("a")
    crew.orphan()
    eventually(crew.is_alone)
    crew.let_go("a")
    eventually(crew.is_over)
    assert crew.job(job).status == "done"
    assert not (crew.folder / "ran").exists()
