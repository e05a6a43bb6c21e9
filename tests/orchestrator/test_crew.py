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


def test_a_second_orchestrator_is_refused_and_names_the_first(crew: Crew) -> None:
    crew.start()
    eventually(lambda: crew.up(2))
    told = crew.call("orchestrator", "start", "--app", "shop:app", code=4)
    assert f"is running already, pid {crew.pid}" in told
    assert json.loads(crew.call("orchestrator", "status", "--json"))["pid"] == crew.pid


def test_scaling_and_cancelling_reach_the_running_crew(crew: Crew) -> None:
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    crew.call("scale", "tag=3")
    eventually(lambda: crew.up(3))
    id = crew.add("hold", name="c")
    pid = eventually(lambda: crew.held_by("c"))
    crew.call("cancel", str(id))
    eventually(lambda: not is_alive(pid))
    assert crew.app.jobs.get(id).status == "cancelled"
    eventually(lambda: crew.up(3))
    assert all(slot.history.lifetime == 0 for slot in crew.app.store.slots.all())
    crew.call("scale", "tag=1")
    eventually(lambda: len(children(crew.pid)) == 1 and crew.up(1))


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


def test_a_job_past_its_time_out_is_ended_and_fails_for_that(crew: Crew) -> None:
    crew.start("tag=1")
    job = crew.app.enqueue(crew.new("hold", name="d").but(timeout=300_000, max_attempts=1))
    failed = job.wait(60)
    assert (failed.status, failed.error) == ("failed", "ran past its time-out")
    assert [run.reason for run in crew.app.claims.runs(job.id)] == ["timeout"]
    eventually(lambda: crew.up(1))
    assert crew.app.store.slots.all()[0].history.lifetime == 0


def test_a_crash_on_boot_backs_off_fails_and_comes_back_by_reset_alone(crew: Crew) -> None:
    crew.env["ROTA_RESTART_BACKOFF"] = "10ms"
    good = (crew.folder / "shop.py").read_text()
    (crew.folder / "shop.py").write_text("raise SystemExit('no such model')\n")
    crew.start("tag=1")
    eventually(lambda: crew.app.store.slots.all() and crew.app.store.slots.all()[0].history.lifetime >= 2)
    assert crew.stop() == 0
    crew.start("tag=1")
    eventually(lambda: crew.slot(0) == "failed")
    slot = crew.app.store.slots.all()[0]
    assert (slot.history.lifetime, len(slot.history.restarts)) == (5, 5)
    assert slot.history.failure_reason == "restarted 5 times within 300 s"
    assert "no such model" in crew.log.read_text()
    (crew.folder / "shop.py").write_text(good)
    assert crew.stop() == 0
    crew.start("tag=1")
    id = crew.add("tag", n=3)
    crew.call("reset", "worker:tag:0")
    assert crew.app.jobs.wait([id], "done", 60_000_000)[0].result == 3
    assert crew.app.store.slots.all()[0].history.lifetime == 0


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


def test_a_second_signal_means_now_and_the_job_goes_back(crew: Crew) -> None:
    crew.start("tag=1")
    id = crew.add("hold", name="f")
    pid = eventually(lambda: crew.held_by("f"))
    os.kill(crew.pid, signal.SIGTERM)
    eventually(lambda: "stopping" in crew.log.read_text())
    os.kill(crew.pid, signal.SIGTERM)
    assert crew.wait() == 0
    assert not is_alive(pid)
    assert crew.app.jobs.get(id).status == "ready"
    assert crew.app.jobs.get(id).attempts == 0


def test_a_worker_whose_orchestrator_is_gone_finishes_its_job_and_leaves(crew: Crew) -> None:
    crew.start("tag=1")
    id = crew.add("hold", name="g")
    pid = eventually(lambda: crew.held_by("g"))
    assert crew.stop(signal.SIGKILL) == -signal.SIGKILL
    crew.let_go("g")
    done = crew.app.jobs.wait([id], "done", 60_000_000)[0]
    assert (done.attempts, done.deaths) == (1, 0)
    eventually(lambda: not is_alive(pid))
    certificate = eventually(lambda: crew.app.workers.certificate(done.worker_id or ""))
    assert certificate is not None and (certificate.reason, certificate.exit_code) == ("exited", 82)


def test_a_new_orchestrator_adopts_the_orphan_and_fills_its_slot_once_it_has_left(crew: Crew) -> None:
    crew.start("tag=2")
    id, idle = crew.add("hold", name="h"), crew.add("hold", name="i")
    busy, killed = eventually(lambda: crew.held_by("h")), eventually(lambda: crew.held_by("i"))
    token = crew.app.jobs.get(id).token
    os.kill(crew.pid, signal.SIGSTOP)
    os.kill(killed, signal.SIGKILL)
    assert crew.stop(signal.SIGKILL) == -signal.SIGKILL
    crew.start("tag=2")
    eventually(lambda: crew.held_by("i") not in (0, killed))
    assert crew.app.jobs.get(id).token == token, "nothing is stolen from the living"
    assert is_alive(busy) and len(children(crew.pid)) == 1
    crew.let_go("h")
    crew.let_go("i")
    done = crew.app.jobs.wait([id, idle], "done", 60_000_000)
    assert [(job.attempts, job.deaths) for job in done] == [(1, 0), (2, 1)]
    eventually(lambda: not is_alive(busy) and crew.up(2) and len(children(crew.pid)) == 2)


def test_a_worker_leaves_after_ten_errors_in_a_row_and_no_job_is_charged_for_it(crew: Crew) -> None:
    jobs = crew.app.enqueue_many(crew.new("broken", n=n).but(max_attempts=1) for n in range(25))
    crew.start("tag=1")
    ended = crew.app.jobs.wait([job.id for job in jobs], "final", 60_000_000)
    assert {(job.status, job.attempts, job.deaths) for job in ended} == {("failed", 1, 0)}
    gone = [crew.app.workers.certificate(worker.id) for worker in crew.app.workers.list(gone_too=True)]
    assert [death.reason for death in gone if death is not None] == ["too_many_errors"] * 2
    assert crew.app.store.slots.all()[0].history.lifetime == 0
