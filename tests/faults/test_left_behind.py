"""What handlers start outlives no worker, whichever session it hides in."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.crews import is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

LEAVING = '''
import subprocess


@app.task(queue="tag")
def leave(start: list[str]) -> None:
    """Start something that lives on in a session of its own."""
    script = 'echo "left $$" >> "$0"; exec sleep 600'
    subprocess.run([*start, "setsid", "--fork", "sh", "-c", script, str(here / "ledger")])


@app.task(queue="tag")
def command(start: list[str], ctx) -> int:
    """A command and its child, both with the lock; the next attempt must be able to take it."""
    script = 'echo "command $$" >> "$0"; sleep 600 & echo "command $!" >> "$0"; wait'
    if ctx.attempt > 1:
        script = 'echo "second" >> "$0"'
    flock = ["flock", "--nonblock", str(here / "checkout"), "sh", "-c", script, str(here / "ledger")]
    note(f"hold command {os.getpid()}")
    code = subprocess.run([*start, *flock]).returncode
    while ctx.attempt == 1:
        time.sleep(0.005)
    return code
'''


def numbers(crew: Crew, word: str) -> list[int]:
    return [int(line.split()[1]) for line in crew.ledger() if line.startswith(f"{word} ")]


def test_a_daemonised_grandchild_is_told_as_a_leak_of_its_run_and_gone_after_stop(crew: Crew) -> None:
    """Fault 13: another run is in hand by the time that anyone looks."""
    crew.teach(LEAVING)
    crew.start("tag=1")
    leak, other = crew.add("leave", start=[]), crew.add("hold", name="a")
    (pid,) = eventually(lambda: numbers(crew, "left"))
    eventually(lambda: crew.held_by("a"))
    (fact,) = eventually(lambda: crew.facts("worker", "leak"))
    run = crew.app.claims.runs(leak)[0]
    assert (fact["pid"], fact["run"], fact["command"]) == (pid, run.id, "sleep 600")
    (line,) = crew.said("was left behind")
    assert line.split()[1:4] == ["worker:tag:0", run.worker_id, run.id]
    assert is_alive(pid), "its worker lives, and so may it"
    crew.let_go("a")
    crew.done(other)
    assert crew.stop() == 0
    assert not is_alive(pid)


def test_what_belongs_to_a_run_in_hand_is_not_called_left_behind(crew: Crew) -> None:
    crew.teach(LEAVING)
    crew.start("tag=2")
    crew.add("command", start=["setsid", "--fork"])
    eventually(lambda: len(numbers(crew, "command")) == 2)
    crew.done(crew.add("leave", start=[]))
    (pid,) = eventually(lambda: numbers(crew, "left"))
    assert [fact["pid"] for fact in eventually(lambda: crew.facts("worker", "leak"))] == [pid]
    assert crew.stop() == 0
    assert len(crew.said("was left behind")) == 1
    assert not any(map(is_alive, numbers(crew, "command")))


def test_one_that_hides_its_environment_too_is_told_and_gone_after_stop(crew: Crew) -> None:
    """Fault 13: nothing tells whose it is, but it is one of ours."""
    crew.teach(LEAVING)
    crew.start("tag=1")
    crew.done(crew.add("leave", start=["env", "--ignore-environment"]))
    (pid,) = eventually(lambda: numbers(crew, "left"))
    eventually(lambda: crew.facts("worker", "leak"))
    assert crew.stop() == 0
    assert not is_alive(pid)


SESSIONS = pytest.mark.parametrize(
    "start", [[], ["setsid", "--wait"], ["setsid", "--fork"]], ids=["same", "own", "daemon"]
)


@SESSIONS
def test_the_command_of_a_killed_worker_is_gone_before_its_job_starts_elsewhere(crew: Crew, start: list[str]) -> None:
    """Fault 20a: the command runs in its worker's session, in one of its own, or as a daemon."""
    crew.teach(LEAVING)
    crew.start("tag=2")
    id = crew.add("command", start=start)
    worker = eventually(lambda: crew.held_by("command"))
    eventually(lambda: len(numbers(crew, "command")) == 2)
    os.kill(worker, signal.SIGKILL)
    done = crew.done(id)[0]
    assert (done.result, done.attempts) == (0, 2), "the lock was free at once"
    assert "second" in crew.ledger() or eventually(lambda: "second" in crew.ledger())
    assert not any(map(is_alive, numbers(crew, "command")))


@pytest.mark.both_stores
@SESSIONS
@pytest.mark.parametrize("which", ["worker", "orphan"])
def test_it_is_gone_too_when_the_orchestrator_was_killed_as_well(crew: Crew, which: str, start: list[str]) -> None:
    """Faults 20a and 21: the worker dies before the orchestrator, or as an orphan after it."""
    crew.teach(LEAVING)
    crew.start("tag=1")
    id = crew.add("command", start=start)
    worker = eventually(lambda: crew.held_by("command"))
    eventually(lambda: len(numbers(crew, "command")) == 2)
    os.kill(crew.pid, signal.SIGSTOP)
    if which == "worker":
        os.kill(worker, signal.SIGKILL)
    assert crew.stop(signal.SIGKILL) == -signal.SIGKILL
    if which == "orphan":
        eventually(lambda: crew.app.jobs.get(id).lease_expires_at is not None)
        os.kill(worker, signal.SIGKILL)
    crew.start("tag=1")
    done = crew.done(id)[0]
    assert (done.result, done.attempts) == (0, 2), "the lock was free at once"
    assert not any(map(is_alive, numbers(crew, "command")))
