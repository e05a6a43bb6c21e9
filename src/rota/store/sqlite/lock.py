"""A fair queue for writers: a `flock` that each takes before BEGIN IMMEDIATE, so that nobody starves."""

from __future__ import annotations

import fcntl
import os
import sys

from rota.core.errors import StoreError
from rota.store.own_files import open_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 3.0
_WAL_WRITER = 120  # the byte of the `-shm` file that SQLite locks for its one writer


def blocker(path: str) -> int | None:
    """The process that keeps the writers of this database waiting; None where that cannot be seen.

    Another program's SQLite lock comes first: the process with the fair lock may be waiting for it like everyone else.
    """
    return sqlite_writer(path) or _holder(f"{path}.lock", "FLOCK") or _last_holder(path)


def sqlite_writer(path: str) -> int | None:
    """Return the process that has SQLite's own write lock on this database; None where that cannot be seen."""
    return _holder(f"{path}-shm", "POSIX", _WAL_WRITER) or _holder(path, "POSIX")


def _holder(path: str, kind: str, byte: int | None = None) -> int | None:
    """The process with an exclusive lock on this file, or on one byte of it. Linux lists all locks; others list none.

    `F_GETLK` would answer that anywhere, but closing the descriptor that it needs drops this process's own locks.
    """
    try:
        found = os.stat(path)
        with open("/proc/locks", encoding="ascii") as file:
            locks = [line.split() for line in file]
    except OSError:
        return None
    name = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for _, *lock in locks:
        match lock:
            case [held, _, "WRITE", pid, file_name, first, last] if (held, file_name) == (kind, name):
                in_range = byte is None or int(first) <= byte <= (byte if last == "EOF" else int(last))
                if in_range and int(pid) > 0:
                    return int(pid)
    return None


def _last_holder(path: str) -> int | None:
    """Return the process that took the fair lock last, as the file says."""
    try:
        with open(open_own(f"{path}.lock", os.O_RDONLY), "rb") as file:
            pid = file.read(64).split()[:1]
    except (OSError, StoreError):
        return None
    return int(pid[0]) if pid and pid[0].isdigit() else None


def program(pid: int) -> str:
    """A process's number and what it runs."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return f"{pid} {file.read().strip()}"
    except OSError:
        return str(pid)


class WriteLock:
    """One descriptor per connection; the file names the process that holds it.

    `on_wait` is called with a message when a holder keeps this process waiting for long, once per wait.
    """

    def __init__(self, path: str, on_wait: Callable[[str], None] | None = None) -> None:
        self._path = path
        self._on_wait = on_wait
        self._descriptor = -1

    def open(self) -> None:
        self._descriptor = open_own(self._path, os.O_RDWR | os.O_CREAT)
        self._mark = f"{os.getpid()} {os.path.basename(sys.argv[0])[:40] or 'python'}\n".ljust(64).encode()[:64]

    def acquire(self) -> None:
        if self._on_wait is None:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        else:
            self._acquire_and_tell(self._on_wait)
        os.pwrite(self._descriptor, self._mark, 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            # It is closed in a child that was forked while the lock was held.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def holder(self) -> str:
        """Return the pid and program of the process that holds the lock."""
        pid = blocker(self._path.removesuffix(".lock"))
        mark = os.pread(self._descriptor, 64, 0).decode(errors="replace").strip()
        if pid is None or mark.split()[:1] == [str(pid)]:
            return mark or "another program"
        return program(pid)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _acquire_and_tell(self, tell: Callable[[str], None]) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        from threading import Timer

        timer = Timer(PATIENCE, lambda: tell(f"waiting for the write lock, held by process {self.holder()}"))
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:
            # No thread can be started here. Wait without the message.
            pass
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        finally:
            timer.cancel()
