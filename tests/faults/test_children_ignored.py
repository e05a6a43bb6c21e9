"""SIGCHLD ignored, or signals blocked, by whoever started the crew or inside a worker."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

CARELESS = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD])
os.execv(sys.argv[1], sys.argv[1:])
"""
COMMANDS = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)

@app.command(queue="tag", argv=["true"])
def good() -> None: ...

@app.command(queue="tag", argv=["false"], max_attempts=1)
def bad() -> None: ...
"""


def test_a_crew_whose_parent_ignores_and_blocks_signals_restarts_its_workers_and_stops(crew: Crew) -> None:
    crew.start("tag=1", under=(sys.executable, "-c", CARELESS))
    job = crew.add("hold", name="a")
    os.kill(eventually(lambda: crew.held_by("a")), signal.SIGKILL)
    crew.let_go("a")
    crew.done(job)
    assert crew.app.jobs.get(job).deaths == 1
    assert [certificate.signal for certificate in crew.deaths()] == [signal.SIGKILL]
    assert crew.stop() == 0


def test_a_command_whose_exit_code_is_lost_has_failed(crew: Crew) -> None:
    """An application that ignores SIGCHLD leaves nobody a way to tell success from failure."""
    crew.teach(COMMANDS)
    crew.start("tag=1")
    for kind in ("bad", "good"):
        job = crew.add(kind)
        eventually(lambda job=job: crew.app.jobs.get(job).status in ("failed", "scheduled"))  # type: ignore[misc]
        (run, *_) = crew.app.claims.runs(job)
        assert "SIGCHLD" in (run.error or "")
    assert crew.stop() == 0
