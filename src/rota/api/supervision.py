"""The pipe to the orchestrator that watches this process: frames, as a worker sends them."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from rota.core.frames import codec as frames
from rota.worker.reporter import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE = 64 * 1024


class Pipe:
    """Says again and again that the loop turns. `stop` is called once the server should end, or nobody watches it."""

    def __init__(self, descriptor: int, every: float, stop: Callable[[], None]) -> None:
        self._pipe = socket.socket(fileno=descriptor)
        self._pipe.setblocking(False)
        self._pipe.set_inheritable(False)
        self._reporter = Reporter(self._pipe)
        self._decoder = frames.Decoder()
        self._every = every
        self._stop = stop
        self._next: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Called in the loop, once requests are answered."""
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._hear)
        self._beat()

    def end(self) -> None:
        """Say that it leaves by itself, and nothing more."""
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        if self._next is not None:
            self._next.cancel()
        self._reporter.report(frames.HEALTH, {"status": "stopping"})

    def _beat(self) -> None:
        self._reporter.report(frames.HEALTH, {"status": "healthy"})
        self._next = asyncio.get_running_loop().call_later(self._every, self._beat)

    def _hear(self) -> None:
        try:
            data = self._pipe.recv(_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        if not data or any(frame.kind == frames.STOP for frame in self._decoder.feed(data)):
            self._stop()
