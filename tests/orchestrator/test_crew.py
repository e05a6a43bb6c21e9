"""What a running crew promises, with real processes and real signals."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

from tests.orchestrator.crews import children, is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.orchestrator.crews import Crew


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


def test_the_job_of_a_killed_worker_runs_again_in_another(crew: Crew) -> None:
    crew.start()
    id = crew.add("hold", name="a")
    first = eventually(lambda: crew.held_by("a"))
    token, worker = crew.app.jobs.get(id).token, crew.app.jobs.get(id).worker_id
    os.kill(first, signal.SIGKILL)
    eventually(lambda: crew.held_by("a") != first)
    again = crew.app.jobs.get(id)
    assert again.token is not None and token is not None and again.token > token
    assert worker is not None
    certificate = crew.app.workers.certificate(worker)
    assert certificate is not None
    assert (certificate.reason, certificate.signal, certificate.job) == ("signaled", 9, id)
    crew.let_go("a")
    done = crew.app.jobs.wait([id], "done", 60_000_000)[0]
    assert (done.attempts, done.deaths) == (2, 1)
    eventually(lambda: crew.up(2))


def test_a_job_that_costs_three_workers_is_quarantined_and_the_slots_live(crew: Crew) -> None:
    crew.start()
    id = crew.add("die")
    failed = crew.app.jobs.wait([id], "final", 60_000_000)[0]
    assert (failed.status, failed.deaths) == ("failed", 3)
    assert "quarantined: cost 3 workers" in crew.app.jobs.why(id)
    assert crew.ledger() == ["die"] * 3
    eventually(lambda: crew.up(2))
    assert sum(slot.history.lifetime for slot in crew.app.store.slots.all()) == 1
    after = crew.add("tag", n=7)
    assert crew.app.jobs.wait([after], "done", 60_000_000)[0].result == 7


def test_the_unstarted_jobs_of_a_killed_worker_spend_nothing(crew: Crew) -> None:
    warm = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(200))]
    crew.start("tag=1")
    crew.app.jobs.wait(warm, "done", 60_000_000)
    held = crew.app.enqueue_many([crew.new("hold", name="b"), *(crew.new("tag", n=1000 + n) for n in range(20))])
    pid = eventually(lambda: crew.held_by("b"))
    eventually(lambda: len(crew.app.jobs.list("active")) > 1)
    os.kill(pid, signal.SIGKILL)
    crew.let_go("b")
    ended = crew.app.jobs.wait([job.id for job in held], "done", 60_000_000)
    assert [job.attempts for job in ended] == [2] + [1] * 20
    assert [len(crew.app.claims.runs(job.id)) for job in ended] == [2] + [1] * 20


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


def test_a_worker_whose_orchestrator_is_killed_finishes_its_job_and_leaves(crew: Crew) -> None:
    crew.start("tag=1")
    id = crew.add("hold", name="g")
    pid = eventually(lambda: crew.held_by("g"))
    assert crew.stop(signal.SIGKILL) == -signal.SIGKILL
    crew.let_go("g")
    eventually(lambda: not is_alive(pid))
    done = crew.app.jobs.wait([id], "done", 60_000_000)[0]
    assert (done.attempts, done.deaths, done.result) == (1, 0, pid)
    eventually(lambda: {worker.status for worker in crew.app.workers.list(gone_too=True)} == {"stopped"})


def test_a_worker_leaves_after_ten_errors_in_a_row_and_no_job_is_charged_for_it(crew: Crew) -> None:
    jobs = crew.app.enqueue_many(crew.new("broken", n=n).but(max_attempts=1) for n in range(25))
    crew.start("tag=1")
    ended = crew.app.jobs.wait([job.id for job in jobs], "final", 60_000_000)
    assert {(job.status, job.attempts, job.deaths) for job in ended} == {("failed", 1, 0)}
    gone = [crew.app.workers.certificate(worker.id) for worker in crew.app.workers.list(gone_too=True)]
    assert [death.reason for death in gone if death is not None] == ["too_many_errors"] * 2
    assert crew.app.store.slots.all()[0].history.lifetime == 0
