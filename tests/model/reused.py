"""Databases that one program of the model after another finds as if just made: to make one costs many steps."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from rota.settings import Settings
from rota.store.postgres.connection import address
from rota.store.postgres.database import PostgresDatabase
from rota.store.sqlite.database import SqliteDatabase
from rota.store.store import Store
from tests.support.clock import FakeClock
from tests.support.postgres import for_this_process
from tests.support.stores import ACTOR, TABLES, do_not_wait_for_the_disk, make_store, reader

if TYPE_CHECKING:
    from collections.abc import Callable

_TABLES = (*TABLES, "slot")
_TIDY_EVERY = 20  # what was deleted is in the way of PostgreSQL's indexes until it is swept up


class Reused:
    """One database, emptied for each program but for what its migrations put there."""

    def __init__(self, kind: str) -> None:
        made = make_store(kind, Path(for_this_process(tempfile.TemporaryDirectory())), FakeClock())
        do_not_wait_for_the_disk(made)
        assert isinstance(made.database, SqliteDatabase | PostgresDatabase)
        self.reader = reader(made)
        self._database = made.database
        self._say = _speaker(made.database)
        self._used = 0
        first = {table: self.reader.rows(f"SELECT * FROM {table}") for table in _TABLES}
        steps = [f"DELETE FROM {table}" for table in _TABLES]
        steps += [f"INSERT INTO {table} VALUES {_text(rows)}" for table, rows in first.items() if rows]
        if kind == "postgres":
            steps += [f"ALTER SEQUENCE number_{name} RESTART" for name in ("job", "token")]
        self._anew = ";".join(("BEGIN", *steps, "COMMIT"))

    def store(self, clock: FakeClock) -> Store:
        """The database as it was made, on this clock."""
        self._used += 1
        if self._used % _TIDY_EVERY == 0:
            self._say("VACUUM")
        self._say(self._anew)
        self._database._clock = clock
        return Store(self._database, Settings(), ACTOR, entropy=random.Random(1).randbytes)

    def draw_on_from(self, other: Reused) -> None:
        """PostgreSQL's sequences leave a gap where a change was undone, which is no promise: go on as SQLite does."""
        for name, number in other.reader.rows("SELECT name, value FROM number WHERE name IN ('job', 'token')"):
            self._say(f"SELECT setval('number_{name}', {max(number, 1)}, {number > 0})")


@cache
def reused(kind: str) -> Reused:
    """The one of this process."""
    return Reused(kind)


def _speaker(database: SqliteDatabase | PostgresDatabase) -> Callable[[str], object]:
    if isinstance(database, SqliteDatabase):
        return database.script
    connection = psycopg.connect(address(database.url).conninfo, autocommit=True)
    connection.execute(f"SET search_path TO {database.schema}".encode())
    return lambda text: connection.execute(text.encode())


def _text(rows: list[tuple[Any, ...]]) -> str:
    """Rows as they stand in SQL: what migrations put there are numbers, plain words and nothing."""
    return ", ".join(f"({', '.join('NULL' if value is None else repr(value) for value in row)})" for row in rows)
