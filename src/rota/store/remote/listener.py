"""Hearing an orchestrator's bell over the API: a stream watched by a thread, behind a descriptor that stays.

The thread opens the stream again when it was lost. Whoever listens polls too, so that nothing hangs on this.
"""

from __future__ import annotations

import os
import select
import threading
from typing import TYPE_CHECKING

from rota.core.errors import RotaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.remote.connection import Connection
    from rota.store.remote.link import Link

RETRY_AFTER = 1.0
SILENT_FOR = 40.0  # twice as long as the API is ever silent, and a little more


class Listener:
    """Hears the bell from the moment it was made; `path` may be another when the orchestrator begins anew."""

    def __init__(self, link: Link, path: Callable[[], str]) -> None:
        self._link = link
        self._path = path
        self._heard, self._ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ended, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._hear, name="rota-listen", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """A descriptor that becomes readable when the bell rings."""
        return self._heard

    def wait(self, seconds: float) -> bool:
        """Wait for a ring; true when there was one."""
        readable, _, _ = select.select([self._heard], [], [], max(0.0, seconds))
        if readable:
            self.clear()
        return bool(readable)

    def clear(self) -> None:
        """Forget the rings heard so far."""
        try:
            os.read(self._heard, 65536)
        except BlockingIOError:
            pass

    def close(self) -> None:
        os.write(self._end, b"!")
        self._thread.join()
        for descriptor in (self._heard, self._ring, self._ended, self._end):
            os.close(descriptor)

    def _hear(self) -> None:
        connection: Connection | None = None
        while True:
            connection = connection or self._open()
            watched = [self._ended] if connection is None else [self._ended, connection.fileno()]
            readable, _, _ = select.select(watched, [], [], RETRY_AFTER if connection is None else SILENT_FOR)
            if self._ended in readable or (connection is not None and not self._rang(connection, bool(readable))):
                if connection is not None:
                    connection.close()
                    connection = None
                if self._ended in readable or select.select([self._ended], [], [], RETRY_AFTER)[0]:
                    return

    def _rang(self, connection: Connection, something_came: bool) -> bool:
        """Whether the stream goes on. A new one begins with a line, for all that rang before it was there."""
        try:
            goes_on = something_came and connection.drain()
        except OSError:
            goes_on = False
        if goes_on:
            try:
                os.write(self._ring, b"!")
            except BlockingIOError:  # it is full of rings
                pass
        return goes_on

    def _open(self) -> Connection | None:
        try:
            return self._link.stream(self._path())
        except RotaError:
            return None
