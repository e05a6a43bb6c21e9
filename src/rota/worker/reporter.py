"""The worker's side of its pipe: outcomes always get through, reports never block the handler."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

from rota.core.frames import codec as frames
from rota.worker.poll import writable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LOOK_AGAIN = 1.0


class Reporter:
    """Writes frames from any thread. A report that does not fit is dropped whole; an outcome waits until it does.

    The lock is never held while waiting for room, so nobody waits for it longer than one write takes.
    """

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._rest = b""
        self._broken = False

    @property
    def is_writing(self) -> bool:
        """Whether some thread is between two halves of a frame, so that this is no moment to interrupt it."""
        return self._lock.locked()

    def report(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Tell how things stand, if the pipe has room; false when it was dropped."""
        data = frames.encode(kind, body)
        if len(data) > frames.LARGEST_REPORT:
            return False
        with self._lock:
            self._flush()
            if self._rest:
                return False
            self._rest = data
            self._flush()
            return not self._broken

    def deliver(self, data: bytes) -> bool:
        """Tell what must not be lost; waits while the pipe is full. False when nobody is there to hear it any more."""
        with self._lock:
            self._rest = self._rest + data if self._rest else data
            self._flush()
        while self._rest:
            writable(self._pipe.fileno(), LOOK_AGAIN)
            with self._lock:
                self._flush()
        return not self._broken

    def switch(self, pipe: socket.socket, first: Callable[[], bytes]) -> bool:
        """Speak to someone else from now on, beginning with what `first` says once nothing else can be said."""
        with self._lock:
            self._pipe, self._broken = pipe, False
            self._rest = first()
        return self.deliver(b"")

    def _flush(self) -> None:
        while self._rest:
            try:
                sent = self._pipe.send(self._rest)
            except BlockingIOError:
                return
            except OSError:
                self._broken, self._rest = True, b""
                return
            self._rest = self._rest[sent:]
