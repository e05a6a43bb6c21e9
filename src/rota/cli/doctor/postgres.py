"""Checks of a PostgreSQL server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota.cli.doctor.checks import OK, WARN, Finding
from rota.core.times import SECOND, format_duration
from rota.store.postgres.database import PostgresDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.store import Store

_SLOW = 0.05
_OLD = 300
_MANY_DEAD = 1_000_000


def look(store: Store) -> Iterator[Finding]:
    database = store.database
    assert isinstance(database, PostgresDatabase)
    ((version, size),) = database.execute("server.about", {"schema": database.schema})
    yield Finding("database", OK, f"{database.path}, PostgreSQL {version}, {size:,} bytes in schema {database.schema}")
    if database.execute("server.is_standby", {}) == [(True,)]:
        mend = "name the primary with --db, or promote this one"
        yield Finding("server", WARN, "a standby: it can be read, and takes no jobs and no changes", mend)
    yield _link(database)
    yield _jit(database)
    yield _durability(database)
    yield _transactions(database)
    yield _dead_rows(database)


def _link(database: PostgresDatabase) -> Finding:
    """Measure the round trip, and detect a pooler."""
    started = time.perf_counter()
    database.now()
    seconds = time.perf_counter() - started
    way = "direct" if database.session.is_direct else "through a pooler: others are heard by polling"
    text = f"{seconds * 1000:.1f} ms there and back, {way}"
    if seconds > _SLOW:
        return Finding("link", WARN, text, "run rota nearer to its database")
    return Finding("link", OK, text)


def _jit(database: PostgresDatabase) -> Finding:
    """Check that rota's jit setting is in force; a pooler may reset it between transactions."""
    ((is_on,),) = database.execute("server.jit", {})
    if is_on:
        text = "the server compiles rota's statements (jit is on), which takes longer than they run"
        return Finding("jit", WARN, text, "ALTER ROLE … SET jit = off for rota's role, or let its pooler keep settings")
    return Finding("jit", OK, "off for rota")


def _durability(database: PostgresDatabase) -> Finding:
    ((fsync, commit),) = database.execute("server.synchronous", {})
    if fsync != "on" or commit == "off":
        text = f"fsync is {fsync}, synchronous_commit is {commit}: a crash of the server can lose what was acknowledged"
        return Finding("durability", WARN, text, "set both to on")
    return Finding("durability", OK, "a commit waits for the disk")


def _transactions(database: PostgresDatabase) -> Finding:
    ((seconds,),) = database.execute("server.oldest", {})
    if seconds > _OLD:
        text = f"one is open for {format_duration(seconds * SECOND)}, and keeps dead rows from being cleared away"
        return Finding("transactions", WARN, text, "see pg_stat_activity for whose it is")
    return Finding("transactions", OK, "none is open for long")


def _dead_rows(database: PostgresDatabase) -> Finding:
    rows = database.execute("server.dead", {"schema": database.schema})
    live, dead = rows[0] if rows else (0, 0)
    if dead > max(live, _MANY_DEAD):
        return Finding("dead rows", WARN, f"{dead:,} beside {live:,} jobs", "VACUUM the table job; is autovacuum on?")
    return Finding("dead rows", OK, f"{dead:,} beside {live:,} jobs")
