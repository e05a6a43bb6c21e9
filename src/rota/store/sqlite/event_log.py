"""The log on SQLite: events become visible in the order of their ids, so the last id read is a whole cursor."""

from __future__ import annotations

from rota.core.errors import BadInput
from rota.store.engine.rows import scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.engine.rows import Row
    from rota.store.sqlite.database import SqliteDatabase

_END = 1 << 62


class SqliteLog:
    """Events by id."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def after(self, cursor: str, most: int) -> list[Row]:
        rows = self._database.execute("event.after", {"cursor": _number(cursor), "most": most})
        return [(str(id), at, actor, facts) for id, at, actor, facts in rows]

    def before(self, cursor: str | None, most: int) -> list[Row]:
        end = _END if cursor is None else _number(cursor)
        rows = self._database.execute("event.before", {"cursor": end, "most": most})
        return [(str(id), at, actor, facts) for id, at, actor, facts in reversed(rows)]

    def last(self) -> str:
        return str(scalar(self._database.execute("event.last", {})))

    def reaches(self, cursor: str) -> bool:
        oldest = scalar(self._database.execute("event.oldest", {}))
        return bool(oldest - 1 <= _number(cursor) <= int(self.last()))


def _number(cursor: str) -> int:
    if cursor.isascii() and cursor.isdigit() and len(cursor) < 19:
        return int(cursor)
    raise BadInput(f"{cursor!r} is not an event cursor: hand back one that `rota events --json` printed")
