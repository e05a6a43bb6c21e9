"""Stores for tests: real databases, a file in the test's own folder or a schema of its own on a real server."""

from __future__ import annotations

import random
import re
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

import apsw
import psycopg

from rota.settings import Settings
from rota.store.metrics import STALE
from rota.store.migrate import migrate
from rota.store.open import open_database
from rota.store.postgres.connection import address
from rota.store.postgres.database import PostgresDatabase
from rota.store.sqlite.database import SqliteDatabase
from rota.store.store import Store
from tests.support.made import make
from tests.support.postgres import for_this_process, shared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rota.store.engine.database import Clock

STORES = ["sqlite", "postgres"]
ACTOR = "tester@here"
TABLES = [
    "job",
    "run",
    "dependency",
    "ripple",
    "worker",
    "certificate",
    "queue",
    "tally",
    "event",
    "number",
    "orchestrator",
    "pulse",
    "source",
    "source_memory",
    "schedule",
    "token",
    "metric",
    "metric_mark",
]  # all that change


def make_store(kind: str, folder: Path, clock: Clock | None = None, seed: int = 1) -> Store:
    """Open a store of this kind for `folder`, made if there is none. Without a clock it uses the real one."""
    return store_at(url_of(kind, folder), clock, seed)


def store_at(url: str, clock: Clock | None = None, seed: int = 1) -> Store:
    """Open the store at a URL, made if there is none."""
    make(url)
    database = open_database(url, Settings(), clock=clock)
    migrate(database)
    return Store(database, Settings(), ACTOR, entropy=random.Random(seed).randbytes)


def url_of(kind: str, folder: Path) -> str:
    """Return the URL of the store of this kind for `folder`."""
    if kind == "sqlite":
        return str(folder / "rota.db")
    assert kind == "postgres", f"no store of kind {kind}"
    return f"{database_for_tests()}?schema=t_{zlib.crc32(str(folder).encode()):08x}"


def exports(kind: str, folder: Path) -> dict[str, str]:
    """Return what a shell in `folder` exports so that rota finds this store. It finds a file there without."""
    return {} if kind == "sqlite" else {"ROTA_DB": url_of(kind, folder)}


@cache
def database_for_tests() -> str:
    """Return the database with the schemas of this process's tests. It is dropped when the process ends."""
    return for_this_process(shared().database())


def do_not_wait_for_the_disk(store: Store) -> None:
    """Turn off waiting for the disk, for tests that do not depend on what survives a power cut."""
    if isinstance(store.database, SqliteDatabase):
        store.database.script("PRAGMA synchronous=OFF")


def again(store: Store) -> Store:
    """Open the same database over a connection of its own, on the same clock."""
    on_its_servers_clock = isinstance(store.database, PostgresDatabase) and store.database._clock is None
    clock = None if on_its_servers_clock else _Shared(store)
    database = open_database(store.database.url, store.settings, clock=clock)
    return Store(database, store.settings, "another@here")


def path_of(store: Store) -> str:
    assert isinstance(store.database, SqliteDatabase)
    return store.database.path


def rows(store: Store, text: str, **params: object) -> list[tuple[Any, ...]]:
    """Run plain SQL on a connection of its own: what the tables hold, or a change behind the store's back."""
    if isinstance(store.database, PostgresDatabase):
        return _postgres_rows(store.database, text, params)
    connection = apsw.Connection(path_of(store))
    connection.set_busy_timeout(10_000)
    try:
        return connection.execute(text, params).fetchall()
    finally:
        connection.close()


class Reader:
    """Plain SQL on one connection that stays open."""

    def __init__(self, rows: Callable[[str], list[tuple[Any, ...]]], close: Callable[[], None]) -> None:
        self.rows = rows
        self.close = close


def reader(store: Store) -> Reader:
    """Return a `Reader`, for tests that read the tables again and again."""
    if isinstance(store.database, PostgresDatabase):
        connection = psycopg.connect(address(store.database.url).conninfo, autocommit=True)
        connection.execute(f"SET search_path TO {store.database.schema}".encode())
        return Reader(lambda text: connection.execute(text.encode()).fetchall(), connection.close)
    file = apsw.Connection(path_of(store), flags=apsw.SQLITE_OPEN_READONLY)
    file.set_busy_timeout(10_000)
    return Reader(lambda text: file.execute(text).fetchall(), file.close)


def drop(store: Store) -> None:
    """Remove a PostgreSQL store's schema, for tests that make very many."""
    assert isinstance(store.database, PostgresDatabase)
    rows(store, f"DROP SCHEMA {store.database.schema} CASCADE")


def _postgres_rows(database: PostgresDatabase, text: str, params: dict[str, object]) -> list[tuple[Any, ...]]:
    with psycopg.connect(address(database.url).conninfo, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {database.schema}".encode())
        query = re.sub(r":([a-z_]+)", r"%(\1)s", text.replace("%", "%%")) if params else text
        cursor = connection.execute(query.encode(), params or None)
        return cursor.fetchall() if cursor.description else []


def everything(store: Store) -> list[list[tuple[Any, ...]]]:
    """Return all that the store holds, for comparison. The count of refusals is left out."""
    kept = {"metric": f"WHERE name <> '{STALE}'"}
    return [rows(store, f"SELECT * FROM {table} {kept.get(table, '')}") for table in TABLES]


def watch_writes(store: Store) -> Callable[[], bool]:
    """Return a function that says whether any row was written since, even with equal values."""
    if isinstance(store.database, SqliteDatabase):
        watcher = apsw.Connection(store.database.path)
        watcher.set_busy_timeout(10_000)
        first = watcher.pragma("data_version")
        return lambda: bool(watcher.pragma("data_version") != first)
    versions = [f"SELECT ctid::text, xmin::text FROM {table}" for table in TABLES]
    before = [rows(store, text) for text in versions]
    return lambda: [rows(store, text) for text in versions] != before


class _Shared:
    """The clock that another store runs on."""

    def __init__(self, store: Store) -> None:
        self._database = store.database

    def now(self) -> int:
        return self._database.now()

    def wall(self) -> int:
        return self._database.wall()
