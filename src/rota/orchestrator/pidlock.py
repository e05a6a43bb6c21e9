"""One orchestrator per database and host: a lock that ends with its process, in a file that names it."""

from __future__ import annotations

import fcntl
import os
import time

from rota.process.host import process_start
from rota.store.own_files import open_own

# For those who only look: they have the lock for a moment, and the file may name one that is long gone.
PATIENCE, LOOK_AGAIN = 1.0, 0.01
MAIN = "main"  # the crew of `orchestrator start`


def lock_path(beside: str, crew: str = MAIN) -> str:
    """Return the path of the lock of a crew, beside its database."""
    return f"{beside}.orchestrator" if crew == MAIN else f"{beside}.crew-{crew}"


class PidLock:
    """The right to be the orchestrator of a database."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def take(self) -> int | None:
        """Take it; the process that has it already, if there is one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            descriptor = open_own(self._path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid, start = _named(descriptor)
                os.close(descriptor)
                if _is(pid, start) or time.monotonic() > deadline:
                    return pid
                time.sleep(LOOK_AGAIN)
                continue
            if _is_still_there(descriptor, self._path):
                os.truncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()} {process_start(os.getpid())}\n".encode(), 0)
                self._descriptor = descriptor
                return None
            os.close(descriptor)

    def release(self) -> None:
        """Give it up, and leave no file; but the next one's, where ours was removed with the database."""
        if _is_still_there(self._descriptor, self._path):
            os.unlink(self._path)
        os.close(self._descriptor)


def holder(path: str) -> int | None:
    """The process that is the orchestrator now, by its own count; None when there is none."""
    try:
        descriptor = open_own(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:  # shared, so that of two who look at once neither takes the other for the holder
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _named(descriptor)[0]
    finally:
        os.close(descriptor)


def is_holder(path: str, pid: int) -> bool:
    """Whether this process is the very one that the file names: its number may be another's by now, or elsewhere."""
    try:
        descriptor = open_own(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        named, start = _named(descriptor)
        return named == pid and _is(pid, start)
    finally:
        os.close(descriptor)


def _named(descriptor: int) -> tuple[int, int | None]:
    """The process in the file, and when it began; the number 0 while nobody is named."""
    pid, _, start = os.pread(descriptor, 64, 0).strip().partition(b" ")
    return int(pid) if pid.isdigit() else 0, int(start) if start.isdigit() else None


def _is(pid: int, start: int | None) -> bool:
    return pid > 0 and start is not None and process_start(pid) == start


def _is_still_there(descriptor: int, path: str) -> bool:
    """The holder before us removes the file when it leaves: then this lock is on nothing."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
