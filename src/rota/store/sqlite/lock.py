"""A fair queue for writers: a `flock` that each takes before BEGIN IMMEDIATE, so that nobody starves."""

from __future__ import annotations

import fcntl
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 3.0


def last_holder(path: str) -> int | None:
    """The process that took the lock of this database last; who waits for long knows thereby who has it."""
    try:
        with open(f"{path}.lock", "rb") as file:
            pid = file.read(64).split()[:1]
    except OSError:
        return None
    return int(pid[0]) if pid and pid[0].isdigit() else None


class WriteLock:
    """One descriptor per connection; the file names the process that holds it.

    `on_wait` hears of a holder that keeps us waiting for long, once per wait.
    """

    def __init__(self, path: str, on_wait: Callable[[str], None] | None = None) -> None:
        self._path = path
        self._on_wait = on_wait
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._mark = f"{os.getpid()} {os.path.basename(sys.argv[0])[:40] or 'python'}\n".ljust(64).encode()[:64]

    def acquire(self) -> None:
        if self._on_wait is None:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        else:
            self._acquire_and_tell(self._on_wait)
        os.pwrite(self._descriptor, self._mark, 0)

    def release(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def holder(self) -> str:
        """Who took the lock last: its pid and program."""
        return os.pread(self._descriptor, 64, 0).decode(errors="replace").strip() or "another program"

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
        except RuntimeError:  # no thread may be started here: we wait all the same
            pass
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        finally:
            timer.cancel()
