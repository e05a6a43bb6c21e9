"""A source that is a query on the user's own SQLite or PostgreSQL database."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rota.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SQLITE3, APSW, PSYCOPG = "sqlite3", "apsw", "psycopg"


class SqlSource:
    """Yields what a query finds: its first column is the key, the others become the payload, by their names.

    `connect` opens a connection of your own (sqlite3, apsw or psycopg), which is closed after each pass.
    """

    def __init__(self, query: str, connect: Callable[[], Any], params: Sequence[object] = ()) -> None:
        if not query.strip():
            raise BadInput("SqlSource needs a query, such as SELECT path FROM file WHERE tagged_at IS NULL")
        if not callable(connect):
            raise BadInput("SqlSource needs connect=, a function that opens a connection: lambda: sqlite3.connect(…)")
        self.query = query.strip().rstrip(";")
        self.connect = connect
        self.params = tuple(params)
        self._forbidden_path: str | None = None

    def __call__(self) -> Iterator[Any]:
        connection = self.connect()
        try:
            self._refuse_shared(connection)
            yield from self.rows(connection)
        finally:
            connection.close()

    def rows(self, connection: Any) -> Iterator[Any]:
        """Yield the rows of the query as keys or pairs."""
        cursor = connection.cursor()
        if kind_of(connection) == PSYCOPG:
            rows = cursor.stream(self.query, self.params or None)
        else:
            rows = cursor.execute(self.query, self.params) or cursor
        names: list[str] = []
        for row in rows:
            names = names or [str(column[0]) for column in cursor.description]
            yield _item(names, tuple(row))

    def keep_off(self, path: str) -> None:
        """Refuse to open this file with sqlite3: two SQLite libraries in one process break each other's locks."""
        self._forbidden_path = path

    def _refuse_shared(self, connection: Any) -> None:
        if self._forbidden_path is None or kind_of(connection) != SQLITE3:
            return
        for _, _, file in connection.execute("PRAGMA database_list").fetchall():
            if file and os.path.realpath(file) == os.path.realpath(self._forbidden_path):
                raise BadInput(f"{file} is rota's own database: open it with apsw, or keep your table in another file")


def kind_of(connection: Any) -> str:
    """Return the name of the library of a connection."""
    return type(connection).__module__.partition(".")[0]


def _item(names: list[str], row: tuple[Any, ...]) -> Any:
    key = _plain(names[0], row[0])
    if len(row) == 1:
        return key
    return key, {name: _plain(name, value) for name, value in zip(names[1:], row[1:], strict=True)}


def _plain(name: str, value: Any) -> Any:
    """Return a value that JSON can hold; dates and ids become text."""
    if value is None or isinstance(value, str | int | float | bool | list | dict):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if type(value).__name__ in ("UUID", "Decimal"):
        return str(value)
    raise BadInput(f"column {name} is {type(value).__name__}, which JSON cannot hold: cast it to text in the query")
