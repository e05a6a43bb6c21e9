"""The log on PostgreSQL, where events become visible out of the order of their ids.

A cursor therefore is a snapshot: what was over then has been read. Within a page it is two, the snapshot before the
page and the page's own, with the last id read; ids are drawn last in a transaction, so of two that meet they tell the
order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rota.core.errors import BadInput
from rota.store.engine.rows import scalar

if TYPE_CHECKING:
    from rota.store.engine.rows import Row
    from rota.store.postgres.database import PostgresDatabase

_NOTHING = "3:3:"
_SNAPSHOT = r"[1-9][0-9]{0,18}:[1-9][0-9]{0,18}:[0-9,]*"
_CURSOR = re.compile(rf"(?P<seen>{_SNAPSHOT})(/(?P<page>{_SNAPSHOT})/(?P<id>[0-9]{{1,18}}))?", re.ASCII)
_END = 1 << 62


class PostgresLog:
    """Events by snapshot."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def after(self, cursor: str, most: int) -> list[Row]:
        seen, page, id = _parts(cursor)
        events: list[Row] = []
        if page is not None:
            rows = self._database.execute("log.rest", {"seen": seen, "page": page, "id": id, "most": most})
            events = [(f"{seen}/{page}/{id}", at, actor, facts) for id, at, actor, facts in rows]
            seen = page
        if len(events) < most:
            rows = self._database.execute("log.after", {"seen": seen, "most": most - len(events)})
            events += [(f"{seen}/{now}/{id}", at, actor, facts) for id, at, actor, facts, now in rows]
        return events

    def before(self, cursor: str | None, most: int) -> list[Row]:
        _, _, end = (None, None, _END) if cursor is None else _parts(cursor)
        rows = self._database.execute("log.before", {"id": end, "most": most})
        return [(f"{_NOTHING}/{now}/{id}", at, actor, facts) for id, at, actor, facts, now in reversed(rows)]

    def rebase(self) -> int:
        """Bring the log of another server, restored into this one, into this one's past; how many events."""
        with self._database.write(exclusive=True):
            return len(self._database.execute("log.rebase", {}))

    def last(self) -> str:
        return str(scalar(self._database.execute("log.last", {})))

    def reaches(self, cursor: str) -> bool:
        seen, _, _ = _parts(cursor)
        return bool(scalar(self._database.execute("log.reaches", {"seen": seen})))


def _parts(cursor: str) -> tuple[str, str | None, int]:
    """The snapshot that was read up to, and within a page the page's snapshot and the last id."""
    if cursor == "0":
        return _NOTHING, None, 0
    known = _CURSOR.fullmatch(cursor)
    if known is None:
        raise BadInput(f"{cursor!r} is not an event cursor: hand back one that `rota events --json` printed")
    return known["seen"], known["page"], int(known["id"] or 0)
