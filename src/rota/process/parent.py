"""The process that started us, watched and ended by those who must not mistake another for it."""

from __future__ import annotations

import os
import signal

from rota.process.host import is_stopped, process_start


class Parent:
    """Our parent, for as long as it lives: its number is its own until we have another parent."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._start = process_start(pid)
        self._leads = False
        self.pidfd: int | None = None
        try:
            self._leads = os.getpgid(pid) == pid
            if hasattr(os, "pidfd_open"):
                self.pidfd = os.pidfd_open(pid)
        except OSError:
            pass

    @property
    def is_gone(self) -> bool:
        return os.getppid() != self._pid

    @property
    def is_stopped(self) -> bool:
        """Whether it is stopped, as by SIGSTOP."""
        return not self.is_gone and is_stopped(self._pid)

    def end_session(self) -> None:
        """End it and all that it started; its number cannot be another's while a child in its group lives."""
        if self.is_gone and process_start(self._pid) not in (None, self._start):
            return
        try:
            if self._leads:
                os.killpg(self._pid, signal.SIGKILL)
            elif not self.is_gone:
                os.kill(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
