"""One orchestrator per database and host: a lock that ends with its process, in a file that names it."""

from __future__ import annotations

import fcntl
import os


class Exclusive:
    """The right to be the orchestrator of a database."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def take(self) -> int | None:
        """Take it; the process that has it already, if there is one."""
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = _pid(descriptor)
                os.close(descriptor)
                return pid
            if _is_still_there(descriptor, self._path):
                os.truncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                self._descriptor = descriptor
                return None
            os.close(descriptor)

    def release(self) -> None:
        """Give it up, and leave no file."""
        os.unlink(self._path)
        os.close(self._descriptor)


def holder(path: str) -> int | None:
    """The process that is the orchestrator now; None when there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _pid(descriptor)
    finally:
        os.close(descriptor)


def _pid(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else 0


def _is_still_there(descriptor: int, path: str) -> bool:
    """The holder before us removes the file when it leaves: then this lock is on nothing."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
