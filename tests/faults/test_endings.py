"""Handlers and workers that are brought to an end: in time, with all that they started, and once."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.support.crews import children, is_alive, kill, states
from tests.support.eventually import eventually
from tests.support.stores import rows

if TYPE_CHECKING:
    from tests.support.crews import Crew

ENDLESS = '''
import subprocess


@app.task(queue="tag")
def endless() -> None:
    """Loop for ever, beside a child in the same process group."""
    child = subprocess.Popen(["sleep", "600"])
    note(f"hold endless {os.getpid()}")
    note(f"child {child.pid}")
    while True:
        pass


@app.task(queue="tag")
def stubborn() -> None:
    """Whatever is raised into it, it goes on."""
    note(f"hold stubborn {os.getpid()}")
    while True:
        try:
            time.sleep(600)
        except BaseException as problem:
            note(f"swallowed {type(problem).__name__}")


@app.task(queue="tag")
def asked(ctx) -> int:
    """Note that the worker was asked to leave, and go on until the test lets it go."""
    note(f"hold asked {os.getpid()}")
    while not ctx.stopping:
        time.sleep(0.005)
    note("was asked")
    while not (here / "go-asked").exists():
        time.sleep(0.005)
    return os.getpid()
'''


def test_an_endless_loop_is_ended_at_its_deadline_with_its_whole_process_group(crew: Crew) -> None:
    """Fault 8."""
    crew.teach(ENDLESS)
    crew.start("tag=1")
    job = crew.app.enqueue(crew.new("endless").replace(timeout=300_000, max_attempts=1))
    failed = job.wait(60)
    assert (failed.status, failed.error) == ("failed", "ran past its time-out")
    assert [run.reason for run in crew.app.claims.runs(job.id)] == ["timeout"]
    assert not any(is_alive(int(line.split()[-1])) for line in crew.ledger())
    assert [death.reason for death in crew.deaths()] == ["deadline"]
    eventually(lambda: crew.up(1))
    assert crew.app.store.slots.all()[0].history.lifetime == 0


def test_a_handler_that_ignores_every_request_to_stop_is_killed_after_the_grace(crew: Crew) -> None:
    """Fault 9."""
    crew.teach(ENDLESS)
    crew.env["ROTA_SHUTDOWN_TIMEOUT"] = "100ms"
    crew.start("tag=1")
    id = crew.add("stubborn")
    pid = eventually(lambda: crew.held_by("stubborn"))
    assert crew.stop() == 0
    assert not is_alive(pid)
    assert "swallowed Interrupted" in crew.ledger(), "it was asked before it was killed"
    job = crew.app.jobs.get(id)
    assert (job.status, job.attempts, job.deaths) == ("ready", 0, 0)
    assert crew.processes() == []


def test_a_job_that_hangs_without_a_time_out_is_ended_by_cancel(crew: Crew) -> None:
    """Fault 20b; that it is shown as needing attention is `test_why`'s."""
    crew.teach(ENDLESS)
    crew.start("tag=1")
    id = crew.add("endless")
    eventually(lambda: any(line.startswith("child ") for line in crew.ledger()))
    crew.call("cancel", str(id))
    eventually(lambda: not any(is_alive(int(line.split()[-1])) for line in crew.ledger()))
    assert crew.app.jobs.get(id).status == "cancelled"
    (certificate,) = eventually(crew.deaths)
    assert certificate.reason == "killed_by_operator"
    eventually(lambda: crew.up(1))
    assert crew.app.store.slots.all()[0].history.lifetime == 0


def test_a_worker_that_is_asked_to_leave_five_times_leaves_once_and_is_replaced(crew: Crew) -> None:
    """Fault 20."""
    crew.teach(ENDLESS)
    crew.start("tag=1")
    id = crew.add("asked")
    pid = eventually(lambda: crew.held_by("asked"))
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: "was asked" in crew.ledger())
    for _ in range(4):
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: set(states(pid)) == {"S"})
    next_one = crew.add("tag", n=1)
    crew.let_go("asked")
    first, second = crew.done(id, next_one)
    assert (first.attempts, first.result) == (1, pid)
    assert second.worker_id != first.worker_id
    assert len(crew.said("left: exited with code 0")) == 1
    assert crew.app.workers.get(first.worker_id or "").status == "stopped"
    assert (crew.deaths(), crew.app.store.slots.all()[0].history.lifetime) == ([], 0)


def test_when_everything_is_asked_to_leave_at_once_each_leaves_once_and_the_job_is_finished(crew: Crew) -> None:
    """Fault 20: as a service manager does it, which signals the orchestrator and all its workers."""
    crew.start("tag=3")
    id = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a") and crew.up(3))
    everyone = [crew.pid, *children(crew.pid)]
    for pid in everyone:
        kill(pid, signal.SIGTERM)  # an idle one may have been asked by the orchestrator before, and be gone
    eventually(lambda: crew.said("stopping:"))
    crew.let_go("a")
    assert crew.wait() == 0
    assert crew.app.jobs.get(id).status == "done"
    assert len(crew.said("left: exited with code 0")) == 3
    assert crew.deaths() == []
    assert not any(map(is_alive, everyone))


def test_a_second_signal_means_now_and_the_job_goes_back(crew: Crew) -> None:
    """Fault 20."""
    crew.start("tag=1")
    id = crew.add("hold", name="f")
    pid = eventually(lambda: crew.held_by("f"))
    os.kill(crew.pid, signal.SIGTERM)
    eventually(lambda: crew.said("stopping:"))
    os.kill(crew.pid, signal.SIGTERM)
    assert crew.wait() == 0
    assert not is_alive(pid)
    job = crew.app.jobs.get(id)
    assert (job.status, job.attempts) == ("ready", 0)


def test_a_payload_that_the_handler_cannot_take_fails_that_job_and_the_worker_lives(crew: Crew) -> None:
    """Fault 43: no JSON at all, which only another program could have written, and JSON that does not fit."""
    ids = [crew.app.enqueue(crew.new("tag", n=1).replace(max_attempts=1)).id for _ in range(4)]
    for id, payload in zip(ids, ('{"n":', '{"m": 1}', '{"n": 1, "m": 2}'), strict=False):
        rows(crew.app.store, "UPDATE job SET payload = :payload WHERE id = :id", payload=payload, id=id)
    crew.start("tag=1")
    last = crew.app.jobs.wait(ids[3:])
    assert last[0].status == "done" and crew.ledger() == ["1"]
    failed = [crew.app.jobs.get(id) for id in ids[:3]]
    assert [job.status for job in failed] == ["failed"] * 3
    assert "payload cannot be read" in str(failed[0].error) and all(
        "unexpected" in str(job.error) for job in failed[1:]
    )
    runs = [run for id in ids for run in crew.app.claims.runs(id)]
    assert len({run.worker_id for run in runs}) == 1 and len(runs) == 4, "one worker, which lives"
