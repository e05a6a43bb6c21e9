"""Processes that a worker's handlers left behind: found because they become ours, ended with their worker."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

from rota.core.record import Record
from rota.process import system
from rota.process.run_environment import run_of

if TYPE_CHECKING:
    from collections.abc import Collection

PATIENCE = 1.0  # for one that cannot be ended; on a busy machine the others take a moment too


class Leak(Record):
    """A process that a handler left behind, with the worker and run that it comes from, if that can be read."""

    pid: int
    worker_id: str | None
    run_id: str | None
    command: str


def find(known: Collection[int]) -> list[Leak]:
    """Return our children that are nobody's workers; those that have ended are reaped on the way."""
    found = []
    for pid in system.children():
        if pid not in known and not _reap(pid):
            variable = partial(system.initial_variable, pid)
            worker, run = variable("ROTA_WORKER_ID"), run_of(variable)
            found.append(Leak(pid, worker, run, system.command(pid)))
    return found


def end(known: Collection[int], worker_id: str | None = None) -> int:
    """End what this worker, or any, left behind, descendants too, and await their end; return how many."""
    deadline, ended = time.monotonic() + PATIENCE, 0
    while True:
        left = [leak for leak in find(known) if worker_id in (None, leak.worker_id)]
        if not left or time.monotonic() > deadline:
            return ended
        for leak in left:
            _kill(leak.pid)
            ended += _await_end(leak.pid, deadline)


def _kill(pid: int) -> None:
    """End a child of ours, with its group where it leads one: some in it may have cleared their environment."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _await_end(pid: int, deadline: float) -> bool:
    while not _reap(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _reap(pid: int) -> bool:
    """Whether the process is gone; a child of ours, so its number cannot be anyone else's until we reap it."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
