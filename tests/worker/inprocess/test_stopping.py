"""How a worker in one's own process ends: by a signal, by advice, by its limit; and how its death is noticed."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from pathlib import Path

import pytest

import rota
from rota import App, NewJob
from rota.core.times import HOUR, SECOND
from rota.settings import Settings
from tests.support.eventually import eventually
from tests.worker.inprocess.workshop import Workshop

WORK = """
def execute(job, ctx):
    note(f"began {job.id}")
    if job.title == "slow":
        wait_for("go")
    note(f"ended {job.id} stopping={ctx.stopping}")
    return job.title
count = rota.run_worker(execute, name="ours")
note(f"returned {count}")
"""


def states(workshop: Workshop) -> list[str]:
    return [worker.status for worker in workshop.store.workers.list(gone_too=True)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_job_in_hand_end_and_deregisters(workshop: Workshop, number: signal.Signals) -> None:
    id, waiting = workshop.add("slow"), workshop.add("never begun")
    script = workshop.start(WORK)
    workshop.noted(f"began {id}")
    for _ in range(5):
        script.signal(number)
    workshop.touch("go")

    assert script.ended() == 0
    assert workshop.notes() == [f"began {id}", f"ended {id} stopping=True", "returned 1"]
    assert (workshop.job(id).status, workshop.job(id).result) == ("done", "slow")
    assert workshop.job(waiting).status == "ready"
    assert states(workshop) == ["stopped"]


def test_it_beats_until_the_job_in_hand_is_settled_though_it_was_asked_to_stop(workshop: Workshop) -> None:
    id = workshop.add("slow")
    script = workshop.start(WORK)
    workshop.noted(f"began {id}")
    script.signal(signal.SIGTERM)
    worker = workshop.registered()
    before = workshop.store.workers.get(worker).heartbeat_count
    eventually(lambda: workshop.store.workers.get(worker).heartbeat_count > before + 5)  # five intervals, two would do
    assert workshop.store.reconcile().dead_workers_found == 0
    workshop.touch("go")

    assert script.ended() == 0 and workshop.job(id).status == "done"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_wakes_an_idle_worker(workshop: Workshop, number: signal.Signals) -> None:
    script = workshop.start(WORK, ROTA_POLL_INTERVAL="1h", ROTA_HEARTBEAT_INTERVAL="1h")
    workshop.registered()
    eventually(lambda: workshop.is_idle(script.pid))
    script.signal(number)

    assert script.ended() == 0
    assert workshop.notes() == ["returned 0"] and states(workshop) == ["stopped"]


def test_a_process_that_a_handler_forked_hears_its_own_signals(workshop: Workshop) -> None:
    id = workshop.add()
    script = workshop.start(
        """
import multiprocessing
def sleep():
    Path("child").touch()
    time.sleep(600)
def execute(job, ctx):
    child = multiprocessing.get_context("fork").Process(target=sleep)
    child.start()
    wait_for("child")
    child.terminate()
    child.join()
    return [child.exitcode, ctx.stopping]
rota.run_worker(execute)
"""
    )
    assert workshop.ends(id).result == [-signal.SIGTERM, False]
    switches = _switches(script.pid)
    worker, beats = workshop.registered(), workshop.store.workers.get(workshop.registered()).heartbeat_count
    eventually(lambda: workshop.store.workers.get(worker).heartbeat_count >= beats + 3)
    assert _switches(script.pid) - switches < 100, "and the worker goes on in peace"


def test_outside_the_main_thread_it_works_too_and_stops_when_asked_by_its_beat(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db", Settings(heartbeat_interval=SECOND // 5))
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(rota.run_worker(lambda job, ctx: None, app=app)))
    thread.start()
    job = app.enqueue(NewJob("a job")).wait(30)
    assert job.worker_id is not None
    app.workers.stop(job.worker_id)
    thread.join(30)

    assert counts == [1] and app.workers.get(job.worker_id).status == "stopped"


def test_worker_stop_lets_the_job_in_hand_end(workshop: Workshop) -> None:
    id = workshop.add("slow")
    script = workshop.start(WORK)
    workshop.noted(f"began {id}")
    workshop.shell.say("worker", "stop", workshop.registered())
    eventually(lambda: "was asked to stop" in script.said)
    workshop.touch("go")

    assert script.ended() == 0
    assert workshop.notes() == [f"began {id}", f"ended {id} stopping=True", "returned 1"]
    assert states(workshop) == ["stopped"]


def test_a_paused_queue_is_left_alone_until_it_is_resumed(workshop: Workshop) -> None:
    first = workshop.add("slow")
    script = workshop.start(WORK, ROTA_POLL_INTERVAL="100ms")
    workshop.noted(f"began {first}")
    workshop.shell.say("pause", "default")
    second = workshop.add("second")
    workshop.touch("go")
    workshop.ends(first)
    worker = workshop.registered()
    before = workshop.store.workers.get(worker).heartbeat_count
    eventually(lambda: workshop.store.workers.get(worker).heartbeat_count > before + 3)
    assert workshop.job(second).status == "ready" and script.said.count("could not") == 0
    workshop.shell.say("resume", "default")

    assert workshop.ends(second).worker_id == worker


def test_a_killed_worker_is_noticed_by_its_beats_and_the_job_goes_to_the_next(workshop: Workshop) -> None:
    id = workshop.add("slow")
    script = workshop.start(WORK, ROTA_LEASE="1h")
    workshop.noted(f"began {id}")
    script.signal(signal.SIGKILL)
    script.ended()
    began = time.monotonic()
    workshop.touch("go")
    other = workshop.start(WORK)
    job = workshop.ends(id)

    assert time.monotonic() - began < 30, "its lease was an hour"
    assert [run.status for run in workshop.store.claims.runs(id)] == ["expired", "completed"]
    assert job.attempts == 2 and job.deaths == 1
    assert sorted(states(workshop)) == ["dead", "idle"]
    other.signal(signal.SIGTERM)
    assert other.ended() == 0


def test_an_idle_worker_hears_the_bell_and_does_not_spin(workshop: Workshop) -> None:
    script = workshop.start(WORK, ROTA_POLL_INTERVAL="1h")
    worker = workshop.registered()
    eventually(lambda: workshop.is_idle(script.pid))
    id = workshop.add("first")
    workshop.ends(id)
    beats = workshop.store.workers.get(worker).heartbeat_count
    switches = _switches(script.pid)
    eventually(lambda: workshop.store.workers.get(worker).heartbeat_count >= beats + 5)

    assert _switches(script.pid) - switches < 300, "five beats and a few looks"


def test_a_look_that_finds_nothing_writes_nothing(workshop: Workshop) -> None:
    script = workshop.start(WORK, ROTA_POLL_INTERVAL="50ms", ROTA_HEARTBEAT_INTERVAL="1h")
    worker = workshop.store.workers.get(workshop.registered())
    eventually(lambda: workshop.is_idle(script.pid))
    switches = _switches(script.pid)
    eventually(lambda: _switches(script.pid) > switches + 20)

    assert workshop.store.workers.get(worker.id) == worker


def test_a_job_that_becomes_due_is_taken_without_a_ring(workshop: Workshop) -> None:
    workshop.start(
        """
def execute(job, ctx):
    if ctx.attempt < 3:
        raise ValueError("again")
rota.run_worker(execute)
""",
        ROTA_POLL_INTERVAL="1h",
        ROTA_HEARTBEAT_INTERVAL="1h",
        ROTA_BACKOFF_FIRST="50ms",
        ROTA_BACKOFF_MOST="50ms",
    )
    id = workshop.add()

    assert workshop.ends(id).attempts == 3


def test_a_fast_rate_is_worked_off_without_a_ring(workshop: Workshop) -> None:
    """A worker that misses a moment of the rate would wait for an hour."""
    workshop.store.queues.set("default", rate="100/s")
    ids = [workshop.add() for _ in range(40)]
    workshop.start(WORK, ROTA_POLL_INTERVAL="1h", ROTA_HEARTBEAT_INTERVAL="1h")
    for id in ids:
        workshop.ends(id)


def _switches(pid: int) -> int:
    """How often a process went to sleep, in all its threads; one that ends just now does not count."""
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for line in (task / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    count += int(line.split()[1])
    return count


def test_leases_longer_than_any_clock_are_no_trouble(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db", Settings(lease=24 * HOUR * 10_000, heartbeat_interval=HOUR))
    job = app.enqueue(NewJob("a job"))
    assert rota.run_worker(lambda job, ctx: ctx.lost, app=app, limit=1) == 1
    assert job.get().result is False
