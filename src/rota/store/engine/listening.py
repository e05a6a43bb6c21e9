"""Listen for notifications over a connection that may break: a thread watches it, behind a stable descriptor.

The thread opens the connection again after it was lost. Listeners poll too, so nothing depends on this.
"""

from __future__ import annotations

import os
import select
import threading
from typing import Generic, Protocol, TypeVar

RETRY_AFTER = 1.0


class Line(Protocol):
    """The connection over which notifications come."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


L = TypeVar("L", bound=Line)


class Listening(Generic[L]):
    """A listener over connections made by `open_line`; `silent_for`: for how many seconds one may be silent."""

    def __init__(self, silent_for: float | None = None) -> None:
        self._silent_for = silent_for
        self._readable, self._writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ended, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._line = self.open_line()
        self._thread = threading.Thread(target=self._listen, name="rota-listen", daemon=True)
        self._thread.start()

    def open_line(self) -> L | None:
        """Open a connection; return None if that is not possible now."""
        raise NotImplementedError

    def rang(self, line: L) -> bool | None:
        """Return whether a notification is among what has come; None if the connection is broken."""
        raise NotImplementedError

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when a notification comes."""
        return self._readable

    def wait(self, seconds: float) -> bool:
        """Wait for a notification; return whether one came."""
        readable, _, _ = select.select([self._readable], [], [], max(0.0, seconds))
        if readable:
            self.clear()
        return bool(readable)

    def clear(self) -> None:
        """Forget the notifications so far."""
        try:
            os.read(self._readable, 65536)
        except BlockingIOError:
            pass

    def close(self) -> None:
        if self._readable < 0:
            return
        os.write(self._end, b"!")
        self._thread.join()
        for descriptor in (self._readable, self._writable, self._ended, self._end):
            os.close(descriptor)
        self._readable = -1

    def _listen(self) -> None:
        while True:
            line = self._line
            watched = [self._ended] if line is None else [self._ended, line.fileno()]
            readable, _, _ = select.select(watched, [], [], RETRY_AFTER if line is None else self._silent_for)
            if self._ended in readable:
                if line is not None:
                    line.close()
                return
            if line is None:
                self._line = self.open_line()
                if self._line is not None:
                    # Notifications sent while there was no connection were missed.
                    self._notify()
                continue
            rang = self.rang(line) if readable else None
            if rang:
                self._notify()
            elif rang is None:
                line.close()
                self._line = None

    def _notify(self) -> None:
        try:
            os.write(self._writable, b"!")
        except BlockingIOError:
            # The pipe is full of notifications that nobody has read yet.
            pass
