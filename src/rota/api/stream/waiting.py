"""Requests that stay open until something happens: how many of them each token has, so that nobody has them all."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.api.errors import TooMany

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.access import AccessToken

MOST_OF_TOKEN = 300


class Waiting:
    """Counts those that wait for work, for output or for the bell: each costs a look at whatever wakes it."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def begin(self, token: AccessToken | None) -> None:
        """Count one more request of a token, or refuse it."""
        id = token.id if token else ""
        if self._open[id] >= MOST_OF_TOKEN:
            raise TooMany(
                f"this token has {MOST_OF_TOKEN:,} waiting requests open already: try again when one has ended"
            )
        self._open[id] += 1

    def end(self, token: AccessToken | None) -> None:
        id = token.id if token else ""
        self._open[id] -= 1
        if not self._open[id]:
            del self._open[id]

    @contextmanager
    def one(self, token: AccessToken | None) -> Iterator[None]:
        """One request for as long as the block lasts."""
        self.begin(token)
        try:
            yield
        finally:
            self.end(token)
