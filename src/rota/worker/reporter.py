"""The worker's side of its pipe: outcomes always get through, reports never block the handler."""

from __future__ import annotations

import select
import socket
import threading
from typing import TYPE_CHECKING, Any

from rota.core import frame as frames

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reporter:
    """Writes frames from any thread. A report that does not fit is dropped whole; an outcome waits until it does."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._rest = b""
        self._broken = False

    def report(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Tell how things stand, if the pipe has room; false when it was dropped."""
        data = frames.encode(kind, body)
        if len(data) > frames.LARGEST_REPORT or not self._lock.acquire(blocking=False):
            return False
        try:
            self._flush()
            if self._rest:
                return False
            self._rest = data
            self._flush()
            return not self._broken
        finally:
            self._lock.release()

    def deliver(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Tell what must not be lost; waits while the pipe is full. False when nobody is there to hear it any more."""
        data = frames.encode(kind, body)
        with self._lock:
            self._rest += data
            self._flush()
            while self._rest:
                select.select([], [self._pipe], [])
                self._flush()
            return not self._broken

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
