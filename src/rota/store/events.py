"""The log of what happened: read after a cursor, and followed."""

from __future__ import annotations

from rota.core.record import Record
from rota.core.times import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rota.core.times import Instant
    from rota.store.store import Store


class Event(Record):
    """What one transaction changed. `cursor` is opaque: hand it back to read on from here."""

    cursor: str
    at: Instant
    actor: str
    facts: list[list[Any]]

    @property
    def number(self) -> int:
        """The same from whichever cursor it was read on."""
        return int(self.cursor.rpartition("/")[2])

    @property
    def just_before(self) -> str:
        """A cursor after which this is the next, whatever was committed since."""
        head, slash, number = self.cursor.rpartition("/")
        return f"{head}{slash}{int(number) - 1}"


class Events:
    """The port for the log."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def after(self, cursor: str = "0", limit: int = 500) -> list[Event]:
        """What happened after a cursor, oldest first; `0` is the beginning."""
        return [_event(*row) for row in self._store.database.log.after(cursor, limit)]

    def newest(self, before: str | None = None, limit: int = 500) -> list[Event]:
        """The last events, or the last before a cursor, oldest first."""
        return [_event(*row) for row in self._store.database.log.before(before, limit)]

    def last(self) -> str:
        """The cursor after all there is."""
        return self._store.database.log.last()

    def reaches(self, cursor: str) -> bool:
        """Whether everything after a cursor is still in the log: false when some was pruned, or is not this log's."""
        return self._store.database.log.reaches(cursor)

    def follow(self, cursor: str) -> Iterator[Event]:
        """What happens after a cursor, without end."""
        listener = self._store.database.listen(events=True)
        try:
            while True:
                found = self.after(cursor)
                yield from found
                if found:
                    cursor = found[-1].cursor
                else:
                    listener.wait(self._store.settings.poll_interval / SECOND)
        finally:
            listener.close()


def _event(cursor: str, at: Instant, actor: str, facts: str) -> Event:
    import json

    return Event(cursor, at, actor, json.loads(facts))
