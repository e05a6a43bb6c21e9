"""Stores for tests: real databases in the test's own folder. A second kind is a name in `STORES` and a branch."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import apsw

from rota.settings import Settings
from rota.store.migrate import migrate
from rota.store.sqlite.create import create
from rota.store.sqlite.database import SqliteDatabase
from rota.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from rota.store.sqlite.clock import Clock

STORES = ["sqlite"]
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
    "token",
    "meter",
    "meter_mark",
]  # all that change


def make_store(kind: str, folder: Path, clock: Clock | None = None, seed: int = 1) -> Store:
    """A store of this kind in `folder`, made where there is none; without a clock it runs on the real one."""
    assert kind == "sqlite", f"no store of kind {kind}"
    path = folder / "rota.db"
    if not path.exists():
        create(str(path), str(folder), None)
    database = SqliteDatabase(str(path), clock)
    migrate(database)
    return Store(database, Settings(), ACTOR, entropy=random.Random(seed).randbytes)


def do_not_wait_for_the_disk(store: Store) -> None:
    """For tests of what the store decides, not of what survives a power cut."""
    assert isinstance(store.database, SqliteDatabase)
    store.database.script("PRAGMA synchronous=OFF")


def again(store: Store) -> Store:
    """The same database through a connection of its own, on the same clock."""
    database = SqliteDatabase(path_of(store), _Shared(store))
    return Store(database, store.settings, "another@here")


def path_of(store: Store) -> str:
    assert isinstance(store.database, SqliteDatabase)
    return store.database.path


def rows(store: Store, text: str, **params: object) -> list[tuple[Any, ...]]:
    """What the tables truly hold, or a change behind the store's back: plain SQL on a connection of its own."""
    connection = apsw.Connection(path_of(store))
    connection.set_busy_timeout(10_000)
    try:
        return connection.execute(text, params).fetchall()
    finally:
        connection.close()


def everything(store: Store) -> list[list[tuple[Any, ...]]]:
    """All that the store holds, to be compared with what it held before."""
    return [rows(store, f"SELECT * FROM {table}") for table in TABLES]


class _Shared:
    """The clock that another store runs on."""

    def __init__(self, store: Store) -> None:
        self._database = store.database

    def now(self) -> int:
        return self._database.now()

    def wall(self) -> int:
        return self._database.wall()
