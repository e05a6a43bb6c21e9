"""What a running crew promises, with real processes and real signals."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done, Failed
from rota.core.times import DAY, SECOND
from tests.support.crews import children, is_alive
from tests.support.eventually import eventually
from tests.support.stores import rows

if TYPE_CHECKING:
    from tests.support.crews import Crew

pytestmark = pytest.mark.both_stores

CRASH = """
@app.task(queue="tag")
def crash() -> None:
    import os, sys
    print("the last words", file=sys.stderr, flush=True)
    os._exit(3)
"""


def test_every_job_runs_once_and_nothing_is_left_after_stop(crew: Crew) -> None:
    ids = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(500))]
    crew.start()
    crew.app.jobs.wait(ids, "done", 60_000_000)
    workers = children(crew.pid)
    assert len(workers) == 2
    assert crew.stop() == 0
    assert sorted(map(int, crew.ledger())) == list(range(500))
    assert not any(map(is_alive, workers))
    assert crew.app.jobs.list("active") == []
    assert {worker.status for worker in crew.app.workers.list(gone_too=True)} == {"stopped"}
    assert not (crew.folder / ".rota" / "rota.db.orchestrator").exists()


def test_a_crew_forgets_old_history_by_itself_while_it_works(crew: Crew) -> None:
    failed, *done = [crew.app.jobs.add(crew.new("tag", n=n)) for n in range(30)]
    for job in done:
        crew.app.claims.settle(crew.app.claims.claim(job.id), Done())
    crew.app.claims.settle(crew.app.claims.claim(failed.id), Failed("no", again=False))
    rows(crew.app.store, "UPDATE job SET finished_at = finished_at - :age", age=8 * DAY)
    kept = crew.add("hold", name="a")
    crew.start()
    eventually(lambda: {job.id for job in crew.app.jobs.list(limit=100)} == {failed.id, kept}, within=60)
    crew.let_go("a")
    crew.done(kept)
    assert crew.app.queues.list()[0].counts["done"] == 1


def test_worker_status_tells_what_a_dead_worker_used_and_said_last(crew: Crew) -> None:
    crew.teach(CRASH)
    crew.start("tag=1")
    crew.add("crash")
    eventually(crew.deaths)
    (dead, *_) = crew.app.workers.deaths()
    page = crew.call("worker", "status", dead[0], code=6)
    for text in ("exited with code 3", "s of processor", "MB of memory at most", "HEALTH", "the last words"):
        assert text in page
    document = json.loads(crew.call("worker", "status", dead[0], "--json", code=6))
    assert document["death"]["exit_code"] == 3 and "the last words" in document["death"]["stderr_tail"]


def test_a_setup_that_fails_is_named_with_the_death(crew: Crew) -> None:
    crew.teach("@app.setup(queue='tag')\ndef load() -> None:\n    raise OSError('no such model')")
    crew.start("tag=1")
    eventually(crew.deaths)
    assert (crew.deaths()[0].text or "").endswith("OSError: no such model")


def test_scaling_and_cancelling_reach_the_running_crew(crew: Crew) -> None:
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    assert json.loads(crew.call("scale", "tag=3", "--json")) == {"scaled": {"tag": 3}}
    eventually(lambda: crew.up(3))
    assert json.loads(crew.call("reset", "worker:tag:0", "--json")) == {"reset": "worker:tag:0"}
    id = crew.add("hold", name="c")
    pid = eventually(lambda: crew.held_by("c"))
    crew.call("cancel", str(id))
    eventually(lambda: not is_alive(pid))
    assert crew.app.jobs.get(id).status == "cancelled"
    eventually(lambda: crew.up(3))
    assert all(slot.history.lifetime == 0 for slot in crew.app.store.slots.all())
    crew.call("scale", "tag=1")
    eventually(lambda: len(children(crew.pid)) == 1 and crew.up(1))
    assert json.loads(crew.call("orchestrator", "stop", "--json")) == {"stopped": crew.pid}
    assert crew.wait() == 0


def test_a_busy_worker_that_is_scaled_away_is_listed_as_stopping_until_it_has_left(crew: Crew) -> None:
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a"))
    crew.call("scale", "tag=0")
    (worker,) = eventually(lambda: [each for each in crew.app.workers.list() if each.status == "stopping"])
    listed = [line for line in crew.call("orchestrator", "status").splitlines() if "worker:tag:0" in line]
    assert len(listed) == 1 and "stopping" in listed[0] and worker.id in listed[0] and "scaled away" in listed[0]
    assert f"{worker.id} was asked to leave" in crew.app.store.slots.why("worker:tag:0")
    crew.let_go("a")
    crew.done(id)
    eventually(lambda: crew.slot(0) == "empty")
    assert "worker:tag:0" not in crew.call("orchestrator", "status")
    assert crew.stop() == 0


def test_a_healthy_workers_last_beat_is_as_fresh_as_its_orchestrators_lease(crew: Crew) -> None:
    crew.env["ROTA_FRAME_INTERVAL"] = "200ms"
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    (worker,) = crew.app.workers.list()
    eventually(lambda: crew.app.workers.get(worker.id).last_heartbeat_at > worker.registered_at + 4 * SECOND)
    assert crew.stop() == 0


def test_a_draining_crew_still_carries_out_pause_scale_and_cancel(crew: Crew) -> None:
    """A job that hangs would keep it for ever."""
    crew.start("tag=2")
    eventually(lambda: crew.up(2))
    hangs, ends = crew.add("hold", name="a"), crew.add("hold", name="b")
    pid = eventually(lambda: crew.held_by("a") and crew.held_by("b") and crew.held_by("a"))
    crew.call("drain")
    eventually(lambda: crew.said("draining"))
    crew.call("pause", "tag")
    crew.call("resume", "tag")
    crew.call("scale", "tag=3")
    crew.call("cancel", str(hangs))
    eventually(lambda: not is_alive(pid))
    assert [crew.app.jobs.get(id).status for id in (hangs, ends)] == ["cancelled", "active"]
    assert len(crew.said("started, pid")) == 2, "it begins no more work"
    crew.let_go("b")
    assert crew.wait() == 0
    assert crew.app.jobs.get(ends).status == "done"


def test_a_job_is_cancelled_while_its_crew_stops(crew: Crew) -> None:
    crew.env["ROTA_SHUTDOWN_TIMEOUT"] = "10m"
    crew.start("tag=1")
    id = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a"))
    os.kill(crew.pid, signal.SIGTERM)
    eventually(lambda: crew.said("stopping: "))
    crew.call("cancel", str(id))
    assert crew.wait() == 0
    assert crew.app.jobs.get(id).status == "cancelled"


def test_paused_workers_live_and_start_nothing_until_resumed(crew: Crew) -> None:
    crew.start()
    eventually(lambda: crew.up(2))
    crew.call("pause", "tag")
    id = crew.add("tag", n=1)
    other = crew.app.enqueue(crew.new("tag", n=2).replace(queue="tag", priority=9)).id
    assert "is paused by" in crew.app.jobs.why(id)
    assert crew.up(2) and crew.ledger() == []
    crew.call("resume", "tag")
    crew.app.jobs.wait([id, other], "done", 60_000_000)


def test_a_busy_crew_finishes_the_job_in_hand_before_it_stops(crew: Crew) -> None:
    crew.start("tag=1")
    id = crew.add("hold", name="e")
    eventually(lambda: crew.held_by("e"))
    os.kill(crew.pid, signal.SIGTERM)
    eventually(lambda: "stopping" in crew.log.read_text())
    late = crew.add("tag", n=1)
    crew.let_go("e")
    assert crew.wait() == 0
    assert crew.app.jobs.get(id).status == "done"
    assert crew.app.jobs.get(late).status == "ready"


def test_a_worker_leaves_after_ten_errors_in_a_row_and_no_job_is_charged_for_it(crew: Crew) -> None:
    jobs = crew.app.enqueue_many(crew.new("broken", n=n).replace(max_attempts=1) for n in range(25))
    crew.start("tag=1")
    ended = crew.app.jobs.wait([job.id for job in jobs], "final", 60_000_000)
    assert {(job.status, job.attempts, job.deaths) for job in ended} == {("failed", 1, 0)}
    gone = [crew.app.workers.certificate(worker.id) for worker in crew.app.workers.list(gone_too=True)]
    assert [death.reason for death in gone if death is not None] == ["too_many_errors"] * 2
    assert crew.app.store.slots.all()[0].history.lifetime == 0
