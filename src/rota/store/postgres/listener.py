"""Hearing others' commits: a LISTEN connection of its own, watched by a thread, behind a descriptor that stays.

The thread opens the connection again when it was lost. Whoever listens polls too, so that nothing hangs on this.
"""

from __future__ import annotations

import os
import select
import threading
from typing import TYPE_CHECKING

from rota.store.postgres import link
from rota.store.postgres.driver import psycopg

if TYPE_CHECKING:
    from rota.store.postgres.link import Connection

RETRY_AFTER = 1.0


class Listener:
    """Hears one bell from the moment it was made."""

    def __init__(self, conninfo: str, bell: str) -> None:
        self._conninfo = conninfo
        self._bell = bell
        self._heard, self._ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ended, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._link = self._open()
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
        if self._heard < 0:
            return
        os.write(self._end, b"!")
        self._thread.join()
        for descriptor in (self._heard, self._ring, self._ended, self._end):
            os.close(descriptor)
        self._heard = -1

    def _hear(self) -> None:
        while True:
            connection = self._link
            watched = [self._ended] if connection is None else [self._ended, connection.fileno()]
            readable, _, _ = select.select(watched, [], [], RETRY_AFTER if connection is None else None)
            if self._ended in readable:
                if connection is not None:
                    connection.close()
                return
            if connection is None:
                self._link = self._open()
                if self._link is not None:  # what rang meanwhile was not heard
                    self._tell()
            elif self._rang(connection):
                self._tell()

    def _rang(self, connection: Connection) -> bool:
        """Whether a notification came; a link that broke is closed."""
        try:
            connection.pgconn.consume_input()
        except psycopg.Error:
            connection.close()
            self._link = None
            return False
        heard = False
        while connection.pgconn.notifies() is not None:
            heard = True
        return heard

    def _open(self) -> Connection | None:
        try:
            connection = link.connect(self._conninfo)
            connection.execute(f"LISTEN {self._bell}".encode())
            return connection
        except psycopg.Error:
            return None

    def _tell(self) -> None:
        try:
            os.write(self._ring, b"!")
        except BlockingIOError:  # it is full of rings
            pass
