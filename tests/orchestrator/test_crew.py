"""What a running crew promises, with real processes and real signals."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

from tests.support.crews import children, is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew


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


def test_paused_workers_live_and_start_nothing_until_resumed(crew: Crew) -> None:
    crew.start()
    eventually(lambda: crew.up(2))
    crew.call("pause", "tag")
    id = crew.add("tag", n=1)
    other = crew.app.enqueue(crew.new("tag", n=2).but(queue="tag", priority=9)).id
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
    jobs = crew.app.enqueue_many(crew.new("broken", n=n).but(max_attempts=1) for n in range(25))
    crew.start("tag=1")
    ended = crew.app.jobs.wait([job.id for job in jobs], "final", 60_000_000)
    assert {(job.status, job.attempts, job.deaths) for job in ended} == {("failed", 1, 0)}
    gone = [crew.app.workers.certificate(worker.id) for worker in crew.app.workers.list(gone_too=True)]
    assert [death.reason for death in gone if death is not None] == ["too_many_errors"] * 2
    assert crew.app.store.slots.all()[0].history.lifetime == 0
