"""The port for the event log: read after a cursor, and followed."""

from __future__ import annotations

from rota.core.event import Event, decode
from rota.core.times import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.times import Instant
    from rota.store.store import Store


class Events:
    """The port for the log."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def after(self, cursor: str = "0", limit: int = 500) -> list[Event]:
        """Return the events after a cursor, oldest first; `0` is the beginning."""
        return [_event(*row) for row in self._store.database.log.after(cursor, limit)]

    def newest(self, before: str | None = None, limit: int = 500) -> list[Event]:
        """Return the last events, or the last before a cursor, oldest first."""
        return [_event(*row) for row in self._store.database.log.before(before, limit)]

    def last(self) -> str:
        """Return the cursor of the last event."""
        return self._store.database.log.last()

    def reaches(self, cursor: str) -> bool:
        """Return whether the log still has every event after a cursor: some may be pruned, or of another log."""
        return self._store.database.log.reaches(cursor)

    def follow(self, cursor: str) -> Iterator[Event]:
        """Yield the events after a cursor without end, and wait for new ones."""
        listener = self._store.database.listen(events=True)
        try:
            while True:
                events = self.after(cursor)
                yield from events
                if events:
                    cursor = events[-1].cursor
                else:
                    listener.wait(self._store.settings.poll_interval / SECOND)
        finally:
            listener.close()


def _event(cursor: str, at: Instant, actor: str, facts: str) -> Event:
    return Event(cursor, at, actor, decode(facts))
