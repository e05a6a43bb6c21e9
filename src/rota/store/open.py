"""Find the database that a program means, open it, and name the person who opened it."""

from __future__ import annotations

import os

from rota.core.errors import BadInput, NotFound, StoreError
from rota.core.ids import base36
from rota.settings import refuse_strangers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar

    from rota.settings import Settings
    from rota.store.engine.database import Clock, Database
    from rota.store.store import Store

    T = TypeVar("T")

FOLDER, FILE = ".rota", "rota.db"
_SCHEME = "sqlite:///"
_SCHEMES = ("sqlite", "postgresql", "postgres", "http", "https")
POSTGRES = ("postgresql://", "postgres://")
REMOTE = ("http://", "https://")


def find(start: str) -> str | None:
    """Return the database of the nearest folder, from `start` upwards, that has a `.rota`; None if none has."""
    here = os.path.abspath(start)
    while True:
        folder = os.path.join(here, FOLDER)
        if os.path.isdir(folder):
            path = os.path.join(folder, FILE)
            refuse_strangers(folder, start)
            if not os.path.exists(path):
                raise StoreError(
                    f"{folder} has lost its {FILE}: restore it from a backup, or remove the folder to start anew"
                )
            return path
        parent = os.path.dirname(here)
        if parent == here:
            return None
        here = parent


def _below(start: str) -> str:
    """Return a hint at databases one folder below, for somebody who is a folder too high."""
    try:
        with os.scandir(start) as entries:
            found = [each.name for each in entries if os.path.exists(os.path.join(each.path, FOLDER, FILE))]
    except OSError:
        return ""
    return f"; there is one in {' and '.join(sorted(found)[:3])}: `cd {sorted(found)[0]}`" if found else ""


def path_of(url: str) -> str:
    """Return the file that a URL or a plain path names."""
    if url.startswith(_SCHEME):
        path = url.removeprefix(_SCHEME)
        return os.path.abspath(path if not url.startswith(_SCHEME + "/") else "/" + path.lstrip("/"))
    scheme, colon, _ = url.partition(":")
    if "://" in url or (colon and scheme.lower() in _SCHEMES):
        # The rest of the URL is not repeated: it may hold a password.
        raise BadInput(
            f"{scheme}:… is not a database that this rota can open:"
            " write sqlite:///path/to/rota.db, postgresql://user@host/database or http://host:8356"
        )
    if not url or url.endswith("/") or os.path.isdir(url):
        raise BadInput(f"{url!r} is not a database file: write sqlite:///path/to/rota.db")
    return os.path.abspath(url)


def open_database(
    url: str | None,
    settings: Settings,
    *,
    make: bool = False,
    clock: Clock | None = None,
    told: Callable[[str], None] | None = None,
) -> Database:
    """Open the database alone, whatever schema it has."""
    if url and url.startswith(REMOTE):
        raise BadInput("this works on the database itself, and an HTTP API was named: do it where the database is")
    if url and url.startswith(POSTGRES):
        from rota.store.postgres import open as postgres

        return postgres.open_database(url, settings, make, clock, told)
    path = path_of(url) if url else find(os.getcwd())
    if path is None or not os.path.lexists(path):
        near = "" if path else _below(os.getcwd())
        if not make:
            where = f"at {path}" if path else "here or in any folder above"
            raise NotFound(f"there is no database {where}: `rota init` makes one{near}")
        from rota.store.sqlite.create import create

        path = create(path, os.getcwd(), told)
        if near and told:
            told(f"that is a new one{near}, if you meant that")
    from rota.store.sqlite.database import SqliteDatabase

    return SqliteDatabase(path, clock, told)


def within_schema(url: str, schema: str) -> str:
    """Return the URL of a PostgreSQL database with rota's tables in this schema."""
    from rota.store.postgres.connection import with_schema

    return with_schema(url, schema)


def within(
    connection: Any,
    url: str | None,
    settings: Settings,
    work: Callable[[Store], T],
    *,
    begins: bool,
    clock: Clock | None = None,
) -> T | Awaitable[T]:
    """Do `work` in the transaction of a caller's psycopg connection to the database `url`; return its result.

    `begins`: something new, which outdated code may not. `clock`: in place of the server's.
    """
    if not (url or "").startswith(POSTGRES):
        raise BadInput(
            "a connection of yours needs rota's jobs in the same PostgreSQL database as your rows:"
            " App('postgresql://…') or ROTA_DB=postgresql://…; here they are"
            f" {'behind an HTTP API' if (url or '').startswith(REMOTE) else 'in SQLite'}"
        )
    from rota.store.postgres import caller_transaction

    return caller_transaction.within(connection, url or "", settings, work, begins, clock)


def open_store(
    url: str | None,
    settings: Settings,
    *,
    make: bool = False,
    actor: str | None = None,
    clock: Clock | None = None,
    told: Callable[[str], None] | None = None,
) -> Store:
    """Open the database that `url` names, or the nearest `.rota`; with `make` one is made where there is none.

    `told` is called with what a person should know: that one was made, or that the write lock is held.
    """
    if url and url.startswith(REMOTE):
        # First, because a shell loop waits for every import (decisions 5 and 20).
        from rota.store.remote.store import RemoteStore

        return RemoteStore(url, settings)
    from rota.store.migrate import is_outdated, migrate
    from rota.store.store import Store

    database = open_database(url, settings, make=make, clock=clock, told=told)
    try:
        migrate(database)
        outdated = is_outdated(database)
    except BaseException:
        database.close()
        raise
    return Store(database, settings, actor or implicit_name(), outdated)


def implicit_name() -> str:
    """Return the actor of changes made at a terminal: the user and the host. In a container a user may be a number."""
    import pwd

    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}"


def implicit_id(name: str) -> str:
    """Return the id of the worker that stands for this person, always the same."""
    import zlib

    text = name.encode()
    return f"worker-{base36((zlib.crc32(text) << 8 | zlib.adler32(text) & 0xFF) % 36**8)}"
