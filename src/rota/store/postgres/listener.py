"""Hearing others' commits: a LISTEN connection of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.store.engine.listening import Listening
from rota.store.postgres import connection as connections
from rota.store.postgres.driver import psycopg

if TYPE_CHECKING:
    from rota.store.postgres.connection import Connection


class Listener(Listening["Connection"]):
    """Hears one bell from the moment it was made."""

    def __init__(self, conninfo: str, channel: str) -> None:
        self._conninfo = conninfo
        self._notifications = channel
        super().__init__()

    def open_line(self) -> Connection | None:
        try:
            connection = connections.connect(self._conninfo)
            connection.execute(f"LISTEN {self._notifications}".encode())
            return connection
        except psycopg.Error:
            return None

    def rang(self, line: Connection) -> bool | None:
        """Whether a notification came."""
        try:
            line.pgconn.consume_input()
        except psycopg.Error:
            return None
        heard = False
        while line.pgconn.notifies() is not None:
            heard = True
        return heard
