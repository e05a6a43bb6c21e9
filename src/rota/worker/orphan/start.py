"""The worker's part when its orchestrator is gone: start a helper, and report everything to it (decision 10)."""

from __future__ import annotations

import os
import socket
import stat
import sys
from typing import TYPE_CHECKING

from rota.core.frames import codec as frames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.frames.assignment import RunJob
    from rota.worker.job_state import JobState

# -P: nothing is imported from the folder that a handler has changed to.
COMMAND = ["-P", "-m", "rota.worker.orphan"]


def start(environment: Mapping[str, str]) -> tuple[int, socket.socket]:
    """Start a helper in a session of its own, on a new pipe; return its process id and our end of the pipe.

    Raises:
        OSError: No process can be started now.
    """
    ours, theirs = socket.socketpair()
    try:
        theirs.set_inheritable(True)
        variables = {**environment, "ROTA_FRAME_FD": str(theirs.fileno()), "ROTA_WORKER_PID": str(os.getpid())}
        pid = os.posix_spawn(sys.executable, [sys.executable, *COMMAND], variables, setsid=True)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    ours.setblocking(False)
    return pid, ours


def first_frames(state: JobState, now: float) -> bytes:
    """Return the first frames to a helper: the running jobs, then each report that is not known to be committed."""
    reports = [*state.checkpoints.values(), *(data for _, data in state.unsettled)]
    hello = {
        "component_id": state.slot,
        "protocol": frames.PROTOCOL,
        "in_hand": [_running(job, state, now) for job in tuple(state.running.values())],
        "told": len(reports),
    }
    return b"".join([frames.encode(frames.HELLO, hello), *reports])


def _running(job: RunJob, state: JobState, now: float) -> dict[str, object]:
    left = None if job.deadline is None else max(0.0, job.deadline - now)
    return {"job": job.id, "token": job.token, "seconds_left": left, "cancels": job.token in state.cancels}


def stop_printing_to_nobody() -> None:
    """Redirect pipes of the orchestrator to /dev/null, because a handler that prints must not fail for them."""
    for descriptor in (1, 2):
        try:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, descriptor)
                os.close(null)
        except OSError:
            pass


def reap(pid: int) -> None:
    """Leave no zombie of a helper that has ended."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
