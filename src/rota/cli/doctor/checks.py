"""Checks of the database, of the file or server that holds it, and of the workers and queues in it."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from rota.cli.doctor import BAD, OK, WARN, Finding
from rota.cli.doctor.environment import room
from rota.core import worker as workers
from rota.core.queue import BREAKER
from rota.core.times import MINUTE, SECOND, format_duration
from rota.store.migrate import LATEST
from rota.store.own_files import open_own
from rota.store.sqlite.lock import program, sqlite_writer
from rota.store.sqlite.open_files import NETWORK, file_system

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.postgres.database import PostgresDatabase
    from rota.store.store import Store

_LARGE_LOG = 256 * 1024 * 1024
_PATIENCE = 1.0
_SLOW = 0.05
_OLD = 300
_MANY_DEAD = 1_000_000


def check_store(store: Store) -> Iterator[Finding]:
    """Check the database, and the workers and queues in it; of an API only what it answers."""
    if store.link is not None:
        yield Finding("API", OK, f"{store.database.path} answers, rota {store.link.get('/info')['version']}")
        yield _clock(store)
        yield from _workers(store)
        yield from _queues(store)
        return
    if store.database.dialect == "postgres":
        yield from check_server(store)
    else:
        yield from _check_file(store.database.path)
    yield _schema(store)
    yield _integrity(store)
    yield _counters(store)
    yield _clock(store)
    yield from _workers(store)
    yield from _queues(store)


def _check_file(path: str) -> Iterator[Finding]:
    yield Finding("database", OK, f"{path}, {os.path.getsize(path):,} bytes")
    yield room(os.path.dirname(path)).replace(about="disk")
    yield _permissions(path)
    yield _file_system(path)
    yield _lock(path)
    yield _log(path)


def _permissions(path: str) -> Finding:
    open_ones = [name for name in (path, os.path.dirname(path)) if os.stat(name).st_mode & 0o022]
    if open_ones:
        return Finding("permissions", WARN, f"others may write to {open_ones[0]}", f"chmod go-w {open_ones[0]}")
    if os.stat(path).st_mode & 0o044:
        return Finding("permissions", WARN, f"others may read {path}", f"chmod go= {path}")
    return Finding("permissions", OK, "yours alone")


def _file_system(path: str) -> Finding:
    kind = file_system(os.path.dirname(path))
    if kind in NETWORK:
        return Finding("file system", BAD, f"{kind} is a network file system", "move the database to a local disk")
    return Finding("file system", OK, kind or "unknown")


def _schema(store: Store) -> Finding:
    version = store.database.version
    if version > LATEST:
        return Finding("schema", WARN, f"{version}, newer than this rota's {LATEST}", "upgrade rota here")
    return Finding("schema", OK, str(version))


def _lock(path: str) -> Finding:
    """Check that the write lock is released within a moment."""
    descriptor = open_own(f"{path}.lock", os.O_RDWR | os.O_CREAT)
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            is_late = time.monotonic() > deadline
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if is_late:
                    holder = os.pread(descriptor, 64, 0).decode(errors="replace").strip() or "another program"
                    return Finding("write lock", WARN, f"held by process {holder}", "see what that process waits for")
            else:
                # Whoever writes now, while we hold rota's own lock, is another program (decision 3).
                stranger = sqlite_writer(path)
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                if stranger is None:
                    return Finding("write lock", OK, "free")
                if is_late:
                    text = f"held by process {program(stranger)}, which does not queue for it"
                    return Finding("write lock", WARN, text, "end its transaction")
            time.sleep(0.02)
    finally:
        os.close(descriptor)


def _log(path: str) -> Finding:
    log = f"{path}-wal"
    size = os.path.getsize(log) if os.path.exists(log) else 0
    if size > _LARGE_LOG:
        return Finding("write-ahead log", WARN, f"{size:,} bytes", "some program keeps an old view open: end it")
    return Finding("write-ahead log", OK, f"{size:,} bytes")


def _integrity(store: Store) -> Finding:
    verdict = store.database.integrity()
    if verdict != "ok":
        return Finding("integrity", BAD, verdict, "stop all workers and restore the database from a backup")
    return Finding("integrity", OK, "sound")


def _counters(store: Store) -> Finding:
    """Compare the kept counts with the rows, in one snapshot."""
    database = store.database
    with database.read():
        kept = {(queue, status): n for queue, status, n in database.execute("tally.all", {}) if n}
        true = {(queue, status): n for queue, status, n in database.execute("tally.true", {})}
    wrong = sorted(place for place in {*kept, *true} if kept.get(place, 0) != true.get(place, 0))
    if wrong:
        queue, status = wrong[0]
        text = f"{kept.get(wrong[0], 0)} {status} jobs counted in queue {queue}, but there are {true.get(wrong[0], 0)}"
        return Finding("counters", BAD, text, "was the database changed by another program? restore it from a backup")
    return Finding("counters", OK, f"they agree with {sum(true.values()):,} jobs")


def _clock(store: Store) -> Finding:
    apart = store.now() - store.database.wall()
    if abs(apart) > MINUTE:
        word = "ahead of" if apart > 0 else "behind"
        text = f"the store's clock is {format_duration(abs(apart))} {word} the wall: it was set since the last start"
        return Finding("clock", WARN, text, "leases are unaffected; times shown differ until the machine restarts")
    return Finding("clock", OK, f"{format_duration(abs(apart))} from the wall")


def _workers(store: Store) -> Iterator[Finding]:
    living = store.workers.list()
    late = [worker.id for worker in living if store.workers.shown(worker) == workers.LATE]
    if late:
        mend = f"`rota worker status {late[0]}`; `rota reconcile` takes back what the dead hold"
        yield Finding("workers", WARN, f"{len(late)} of {len(living)} late", mend)
    else:
        yield Finding("workers", OK, f"{len(living)} living")
    dead = [worker.id for worker in store.workers.list(gone_too=True) if worker.status == workers.DEAD]
    if dead:
        yield Finding("workers", WARN, f"{len(dead)} dead", f"`rota worker status {dead[0]}` says of what")


def _queues(store: Store) -> Iterator[Finding]:
    statuses = store.queues.list()
    for status in statuses:
        name = status.queue.name
        if status.paused_by is not None:
            by = "its breaker" if status.paused_by == BREAKER else status.paused_by
            why = f" ({status.queue.pause_reason})" if status.queue.pause_reason else ""
            yield Finding("queues", WARN, f"{name} is paused by {by}{why}", f"`rota resume {name}`")
    failed = sum(status.counts["failed"] for status in statuses)
    if failed:
        yield Finding("jobs", WARN, f"{failed:,} failed", "`rota list --status failed`, then `rota retry ID`")
    else:
        yield Finding("jobs", OK, "none failed")


def check_server(store: Store) -> Iterator[Finding]:
    """Check the PostgreSQL server, and the connection to it."""
    # Not at module level: it imports psycopg, which is an optional extra.
    from rota.store.postgres.database import PostgresDatabase

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
