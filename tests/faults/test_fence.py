"""A queue that must never overlap, when its orchestrator alone is stopped or killed."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.crews import is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

pytestmark = pytest.mark.both_stores

ALONE = '''
import fcntl, subprocess


@app.task(queue="tag")
def alone(ctx) -> int:
    """Two runs of it at once would meet at the lock, which its child holds too."""
    lock = open(here / "checkout", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlap")
        raise
    child = subprocess.Popen(["sleep", "600"], pass_fds=[lock.fileno()])
    note(f"hold alone {os.getpid()}")
    while ctx.attempt == 1 and not (here / "go-alone").exists():
        time.sleep(0.005)
    child.kill()
    child.wait()
    return os.getpid()
'''


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_fenced_job_never_runs_twice_at_once_though_its_orchestrator_is_gone(crew: Crew, how: signal.Signals) -> None:
    """Fault 35c: stopped, the worker ends itself before the lease lapses; killed, it goes on, and alone."""
    crew.teach(ALONE)
    crew.call("queue", "set", "tag", "--fence", "end")
    crew.start("tag=1")
    id = crew.add("alone")
    pid = eventually(lambda: crew.held_by("alone"))
    crew.start_beside(1)
    eventually(lambda: crew.up(2))
    os.kill(crew.pid, how)
    if how == signal.SIGSTOP:
        eventually(lambda: crew.held_by("alone") != pid)
        assert not is_alive(pid)
        crew.let_go("alone")
        os.kill(crew.pid, signal.SIGCONT)
        done = crew.done(id)[0]
        assert (done.attempts, done.result) == (2, crew.held_by("alone"))
    else:
        assert crew.wait() == -signal.SIGKILL
        token = crew.app.jobs.get(id).token
        eventually(lambda: crew.app.jobs.get(id).renewed_count >= 2)
        crew.let_go("alone")
        done = crew.done(id)[0]
        assert (done.attempts, done.result, done.token) == (1, pid, token)
    assert "overlap" not in crew.ledger()
