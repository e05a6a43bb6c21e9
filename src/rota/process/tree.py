"""What a process has started: the session that it leads, and whatever carries a worker's id in its environment."""

from __future__ import annotations

import os
import signal
import time

PATIENCE = 2.0  # for one that cannot be ended; on a busy machine the others take a moment too


def end_session(leader: int, number: signal.Signals) -> None:
    """Signal a whole session: its leader's group at once, then what a shell put into groups of its own.

    The number of the leader names it, so it must be ours to reap still.
    """
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        pass
    for pid in session_members(leader):
        try:
            if os.getpgid(pid) != leader:
                os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def session_members(leader: int) -> list[int]:
    """Return the processes of a session that have not ended; none on a system without /proc."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, _, _, session, *_ = file.read().rpartition(b")")[2].split()
            except (OSError, ValueError):
                continue
            if int(session) == leader and state not in (b"Z", b"X"):
                found.append(int(name))
    return found


def end_family(worker: str) -> None:
    """End all that a dead worker started, in whatever session it is, and wait until it is gone."""
    deadline = time.monotonic() + PATIENCE
    while family := [pid for pid in _processes() if _is_of(pid, worker)]:
        if time.monotonic() > deadline:
            return
        for pid in family:
            _kill(pid, worker)
        time.sleep(0.001)


def has_helper(workers: set[str]) -> bool:
    """Whether a helper still works for one of these orphans, or for what it left behind."""
    known = {f"ROTA_WORKER_ID={worker}".encode() for worker in workers}
    return any(_is_helper(pairs) and not known.isdisjoint(pairs) for pairs in map(_environment, _processes()))


def _kill(pid: int, worker: str) -> None:
    """End it by its pidfd: its number may be another's by the time it is signalled."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _is_of(pid, worker):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _processes() -> list[int]:
    """Return the numbers of all processes; none on a system without /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except FileNotFoundError:
        return []


def _is_of(pid: int, worker: str) -> bool:
    """Whether a living process was started by this worker; the helper of an orphan is not meant."""
    pairs = _environment(pid)
    return f"ROTA_WORKER_ID={worker}".encode() in pairs and not _is_helper(pairs)


def _is_helper(pairs: list[bytes]) -> bool:
    return any(pair.startswith(b"ROTA_WORKER_PID=") for pair in pairs)


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
