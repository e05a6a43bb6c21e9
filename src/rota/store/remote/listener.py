"""Hearing an orchestrator's bell over the API: a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.errors import RotaError
from rota.store.engine.listening import Listening

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.remote.client import Link
    from rota.store.remote.http_connection import Connection

SILENT_FOR = 40.0  # twice as long as the API is ever silent, and a little more


class Listener(Listening["Connection"]):
    """Hears the bell from the moment it was made; `path` may be another when the orchestrator begins anew."""

    def __init__(self, link: Link, path: Callable[[], str]) -> None:
        self._link = link
        self._path = path
        super().__init__(SILENT_FOR)

    def open_line(self) -> Connection | None:
        try:
            return self._link.stream(self._path())
        except RotaError:
            return None

    def rang(self, line: Connection) -> bool | None:
        """Whether the stream goes on: all that comes over it is a ring."""
        try:
            return line.drain() or None
        except OSError:
            return None
