"""Workers that are killed, or kill themselves: what they had in hand runs again, what they had finished does not."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rota.orchestrator.worker_process import MOST_AT_ONCE
from tests.support.crews import is_alive, states
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

pytestmark = pytest.mark.both_stores

FATAL = '''
import ctypes, fcntl, struct, subprocess, sys, termios, threading


class Deadly(dict):
    """Kills the process that writes it as JSON, the first time."""

    def items(self):
        note("returned")
        if not (here / "killed").exists():
            (here / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().items()


@app.task(queue="tag")
def deadly() -> dict:
    return Deadly(n=1)


@app.task(queue="tag")
def spin(name: str) -> None:
    """Keep the processor busy until the test lets it go, so that a worker asleep is one that has ended this job."""
    note(f"hold {name} {os.getpid()}")
    while not (here / f"go-{name}").exists():
        pass
    note(f"spun {name}")


@app.task(queue="tag")
def last_word(name: str, size: int = 0) -> str:
    """Once let go, the process is killed as soon as its outcome, a text of so many letters, is in the pipe."""
    pipe = int(os.environ["ROTA_FRAME_FD"])

    def unread():
        return struct.unpack("i", fcntl.ioctl(pipe, termios.TIOCOUTQ, bytes(4)))[0]

    def kill_once_told(before):
        while unread() == before:
            time.sleep(0)
        os.kill(os.getpid(), signal.SIGKILL)

    note(f"hold {name} {os.getpid()}")
    while not (here / f"go-{name}").exists():
        time.sleep(0.005)
    threading.Thread(target=kill_once_told, args=(unread(),)).start()
    return "x" * size


@app.task(queue="tag")
def keep_and_die(ctx) -> str:
    if ctx.checkpoint is None:
        ctx.checkpoint = "kept"
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.checkpoint


@app.task(queue="tag")
def touch_nothing() -> None:
    if not (here / "touched").exists():
        (here / "touched").touch()
        ctypes.string_at(0)
'''


def test_the_job_of_a_killed_worker_runs_again_in_another(crew: Crew) -> None:
    """Fault 1."""
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
    done = crew.done(id)[0]
    assert (done.attempts, done.deaths) == (2, 1)
    eventually(lambda: crew.up(2))


def test_killed_between_the_handlers_return_and_the_report_the_job_runs_again_and_is_committed_once(crew: Crew) -> None:
    """Fault 2: writing the result as JSON kills the process."""
    crew.teach(FATAL)
    id = crew.add("deadly")
    crew.start()
    done = crew.done(id)[0]
    assert (done.attempts, done.deaths, done.result) == (2, 1, {"n": 1})
    assert crew.ledger() == ["returned"] * 2
    assert [run.verb for run in crew.app.claims.runs(id)] == ["die", "finish"]


def test_killed_right_after_a_checkpoint_the_next_attempt_has_it(crew: Crew) -> None:
    """It is still in the pipe, or not yet in the store, when the death is seen."""
    crew.teach(FATAL)
    crew.start()
    done = crew.done(*(crew.add("keep_and_die") for _ in range(3)))
    assert [(job.result, job.attempts) for job in done] == [("kept", 2)] * 3


def test_killed_after_the_commit_the_job_does_not_run_again(crew: Crew) -> None:
    """Fault 3: each worker is killed as soon as the store says that its job is done."""
    crew.env |= {"ROTA_RESTART_LIMIT": "20", "ROTA_RESTART_WINDOW": "1ms"}
    crew.start("tag=1")
    ids = []
    for n in range(4):
        ids.append(crew.add("tag", n=n))
        done = crew.done(ids[-1])[0]
        before = crew.app.workers.get(done.worker_id or "")
        os.kill(before.pid or 0, signal.SIGKILL)
        eventually(lambda before=before: crew.app.workers.get(before.id).status == "dead")  # type: ignore[misc]
    crew.done(crew.add("tag", n=9))
    assert crew.ledger() == ["0", "1", "2", "3", "9"]
    assert [(job.status, job.attempts, job.deaths) for job in map(crew.app.jobs.get, ids)] == [("done", 1, 0)] * 4


def test_the_unstarted_jobs_of_a_killed_worker_spend_nothing(crew: Crew) -> None:
    """Fault 4."""
    warm = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(200))]
    crew.start("tag=1")
    crew.done(*warm)
    held = crew.app.enqueue_many([crew.new("hold", name="b"), *(crew.new("tag", n=1000 + n) for n in range(20))])
    pid = eventually(lambda: crew.held_by("b"))
    eventually(lambda: len(crew.app.jobs.list("active")) > 1)
    os.kill(pid, signal.SIGKILL)
    crew.let_go("b")
    ended = crew.done(*(job.id for job in held))
    assert [job.attempts for job in ended] == [2] + [1] * 20
    assert [len(crew.app.claims.runs(job.id)) for job in ended] == [2] + [1] * 20
    assert sorted(int(line) for line in crew.ledger() if line.isdigit()) == [*range(200), *range(1000, 1020)]


@pytest.mark.parametrize("how", ["heard", "unheard", "half heard"])
def test_a_job_whose_outcome_was_told_is_settled_though_its_worker_was_killed(crew: Crew, how: str) -> None:
    """Fault 26a: the outcome waits for the store to be written, or is not even read when its worker is killed.

    It may also be larger than what is read of one worker before the others, and its death, have their turn.
    """
    crew.teach(FATAL)
    crew.env |= {"ROTA_FRAME_INTERVAL": "10m", "ROTA_SILENT_INTERVAL": "1h"}
    crew.start("tag=1")
    more = {"size": MOST_AT_ONCE} if how == "half heard" else {}
    id = crew.add("spin" if how == "heard" else "last_word", name="c", **more)
    pid = eventually(lambda: crew.held_by("c"))
    if how == "heard":
        with crew.app.store.write():
            crew.let_go("c")
            eventually(lambda: "spun c" in crew.ledger() and set(states(pid)) == {"S"})
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: crew.said("ended by signal 9"))
    else:
        os.kill(crew.pid, signal.SIGSTOP)
        crew.let_go("c")
        eventually(lambda: not is_alive(pid))
        os.kill(crew.pid, signal.SIGCONT)
    done = crew.done(id)[0]
    eventually(lambda: crew.up(1))
    crew.done(crew.add("tag", n=1))
    assert (done.attempts, done.deaths) == (1, 0)
    assert [line for line in crew.ledger() if line.startswith("hold")] == [f"hold c {pid}"]
    assert [run.verb for run in crew.app.claims.runs(id)] == ["finish"]
    (certificate,) = crew.deaths()
    assert (certificate.signal, certificate.job) == (9, None)


def test_a_segfault_leaves_its_signal_and_where_it_happened_in_the_certificate(crew: Crew) -> None:
    """Fault 10."""
    crew.teach(FATAL)
    id = crew.add("touch_nothing")
    crew.start("tag=1")
    done = crew.done(id)[0]
    assert (done.attempts, done.deaths) == (2, 1)
    (certificate,) = crew.deaths()
    assert (certificate.reason, certificate.signal, certificate.job) == ("signaled", 11, id)
    assert certificate.stderr_tail is not None
    assert "Segmentation fault" in certificate.stderr_tail and "in touch_nothing" in certificate.stderr_tail


def test_a_job_that_costs_three_workers_is_quarantined_and_the_slots_live(crew: Crew) -> None:
    """Fault 11, by any death; the one by memory follows."""
    crew.start()
    id = crew.add("die")
    failed = crew.app.jobs.wait([id], "final", 60_000_000)[0]
    assert (failed.status, failed.deaths) == ("failed", 3)
    assert "quarantined: cost 3 workers" in crew.app.jobs.why(id)
    assert crew.ledger() == ["die"] * 3
    eventually(lambda: crew.up(2))
    assert sum(slot.history.lifetime for slot in crew.app.store.slots.all()) == 1
    assert crew.done(crew.add("tag", n=7))[0].result == 7
