"""What a worker does when its orchestrator is gone: it starts someone who speaks the orchestrator's side for it."""

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

COMMAND = ["-P", "-m", "rota.worker.orphan"]  # nothing is imported from the folder that a handler has gone to


def start(environment: Mapping[str, str]) -> tuple[int, socket.socket]:
    """A fresh interpreter in a session of its own, on a new pipe; its process and our end. `OSError` if it cannot."""
    ours, theirs = socket.socketpair()
    try:
        theirs.set_inheritable(True)
        told = {**environment, "ROTA_FRAME_FD": str(theirs.fileno()), "ROTA_WORKER_PID": str(os.getpid())}
        pid = os.posix_spawn(sys.executable, [sys.executable, *COMMAND], told, setsid=True)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    ours.setblocking(False)
    return pid, ours


def first_frames(state: JobState, now: float) -> bytes:
    """What it must know: the jobs in hand and their time left, then each report not known to be committed."""
    told = [*state.checkpoints.values(), *(data for _, data in state.unsettled)]
    hello = {
        "component_id": state.slot,
        "protocol": frames.PROTOCOL,
        "in_hand": [_in_hand(job, state, now) for job in tuple(state.running.values())],
        "told": len(told),
    }
    return b"".join([frames.encode(frames.HELLO, hello), *told])


def _in_hand(job: RunJob, state: JobState, now: float) -> dict[str, object]:
    left = None if job.deadline is None else max(0.0, job.deadline - now)
    return {"job": job.id, "token": job.token, "seconds_left": left, "cancels": job.token in state.cancels}


def stop_printing_to_nobody() -> None:
    """Nobody reads the pipes that our orchestrator held; a handler that prints must not fail for it."""
    for descriptor in (1, 2):
        try:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
        except OSError:
            pass


def reap(pid: int) -> None:
    """Leave no zombie of one that ended before us."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
