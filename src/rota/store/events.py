"""The log of what happened: read after a cursor, and followed."""

from __future__ import annotations

from rota.core.errors import BadInput
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


class Events:
    """The port for the log."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def after(self, cursor: str = "0", limit: int = 500) -> list[Event]:
        """What happened after a cursor, oldest first; `0` is the beginning."""
        import json

        rows = self._store.database.execute("event.after", {"cursor": _number(cursor), "most": limit})
        return [Event(str(id), at, actor, json.loads(facts)) for id, at, actor, facts in rows]

    def newest(self, before: str | None = None, limit: int = 500) -> list[Event]:
        """The last events, or the last before a cursor, oldest first."""
        import json

        end = 1 << 62 if before is None else int(before)
        rows = self._store.database.execute("event.before", {"cursor": end, "most": limit})
        return [Event(str(id), at, actor, json.loads(facts)) for id, at, actor, facts in reversed(rows)]

    def last(self) -> str:
        """The newest cursor."""
        return str(self._store.database.execute("event.last", {})[0][0])

    def reaches(self, cursor: str) -> bool:
        """Whether everything after a cursor is still in the log: false when some was pruned, or is not this log's."""
        ((oldest,),) = self._store.database.execute("event.oldest", {})
        return bool(oldest - 1 <= _number(cursor) <= int(self.last()))

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


def _number(cursor: str) -> int:
    if cursor.isascii() and cursor.isdigit() and len(cursor) < 19:
        return int(cursor)
    raise BadInput(f"{cursor!r} is not an event cursor: hand back one that `rota events --json` printed")
