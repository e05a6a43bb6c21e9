"""A crew as the system shows it: its processes, their descriptors and threads, and what is left after a stop."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import time
from typing import TYPE_CHECKING

from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "ROTA_CHAOS"


class Vitals(Record):
    """The resources that a process uses, and the number of its children that ended and were not reaped."""

    descriptors: int
    threads: int
    zombies: int

    def exceeds(self, before: Vitals) -> bool:
        return self.descriptors > before.descriptors or self.threads > before.threads or self.zombies > 0


class Remains(Record):
    """Things that a stopped crew left behind, and should not have."""

    processes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()


def marked(mark: str) -> list[int]:
    """Return the processes whose environment contains this mark."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and _has_mark(pid, mark)]


def send(pid: int, mark: str, number: signal.Signals) -> bool:
    """Signal a process; return false if it has ended, or if it does not have the mark."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not _has_mark(pid, mark):
            return False
        signal.pidfd_send_signal(descriptor, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)


def end_all(mark: str, within: float = 10.0) -> None:
    """Kill every process that has the mark, and wait until they are gone."""
    deadline = time.monotonic() + within
    while (left := marked(mark)) and time.monotonic() < deadline:
        for pid in left:
            send(pid, mark, signal.SIGKILL)
        time.sleep(0.01)


def vitals(pid: int) -> Vitals:
    """Return what a process uses now."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        zombies = sum(_is_zombie(int(child)) for child in file.read().split())
    return Vitals(len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")), zombies)


def settled(pid: int, before: Vitals, within: float) -> Vitals:
    """Return what a process uses, once that is no more than before or the time is over: timers may have threads."""
    deadline = time.monotonic() + within
    while (now := vitals(pid)).exceeds(before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return now


def remains(folder: str, mark: str, ours: tuple[str, ...]) -> Remains:
    """Return what a crew has left in its folder and on the system. `ours`: files of the storm itself."""
    files, sockets, locks = [], [], []
    for path in _files(folder):
        name = os.path.relpath(path, folder)
        if name in ours:
            continue
        mode = os.lstat(path).st_mode
        if stat.S_ISSOCK(mode):
            sockets.append(name)
        elif name.endswith((".orchestrator", ".pid")):
            files.append(name)
        if stat.S_ISREG(mode) and _is_locked(path):
            locks.append(name)
    processes = [f"{pid} ({_command(pid)})" for pid in marked(mark)]
    return Remains(tuple(processes), tuple(files), tuple(sockets), tuple(locks))


def _has_mark(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={mark}".encode() in file.read().split(b"\0")
    except OSError:  # it has ended, or belongs to another user
        return False


def _files(folder: str) -> Iterator[str]:
    for where, _, names in os.walk(folder):
        yield from (os.path.join(where, name) for name in names)


def _is_locked(path: str) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return False


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "gone by now"
