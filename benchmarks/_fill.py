"""Fill a database with millions of jobs by plain SQL, as true as if they had come one by one."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import apsw
import psycopg

from rota.store.jobs.enqueue import NewJob
from rota.store.postgres.connection import address

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.store import Store

# For each n one ready, one scheduled, one blocked (it waits for the scheduled one), one limited (it waits for room
# under its key, in a queue of its own) and one finished job with its run.
LIMITED, KEYS = "limited", 100
_NUMBERS = "WITH RECURSIVE n (i) AS (SELECT CAST(:low AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < :high)"
_JOB = f"{_NUMBERS} INSERT INTO job (id, queue, kind, title, payload, priority, max_attempts, created_at, status"
_WORK = """'noop', 'job ' || i, '{"n":1}', i % 5, 3, :now"""
_SAME = f"SELECT :first + i, 'q', {_WORK}"
_READY = f"{_JOB}) {_SAME}, 'ready' FROM n"
_SCHEDULED = f"{_JOB}, due_at, dependents) {_SAME}, 'scheduled', :now + 86400000000 + i, 1 FROM n"
_BLOCKED = f"{_JOB}, blocked_on) {_SAME}, 'blocked', 'dependency' FROM n"
_LIMITED = f"""{_JOB}, blocked_on, limit_key)
SELECT :first + i, '{LIMITED}', {_WORK}, 'blocked', 'limit', 'key ' || (i % {KEYS}) FROM n"""
_DONE = f"""{_JOB}, attempts, finished_at, token, worker, orchestrator, claimed_at, result)
{_SAME}, 'done', 1, :now, :token + i, 'worker-00000000', 1, :now, 'null' FROM n"""
_WAITS = f"{_NUMBERS} INSERT INTO dependency (job, needs) SELECT :first + i, :needs + i FROM n"
_RUNS = f"""{_NUMBERS} INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb)
SELECT :token + i, :first + i, 'worker-00000000', 1, 1, :now, :now, 'finish' FROM n"""
_COUNT = """INSERT INTO tally (queue, status, n) VALUES (?, ?, ?)
ON CONFLICT (queue, status, shard) DO UPDATE SET n = tally.n + excluded.n"""
_COUNTED = (("q", "ready"), ("q", "scheduled"), ("q", "blocked"), (LIMITED, "blocked"), ("q", "done"))
_CHUNK = 250_000
Kinds = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]  # the statements, and what they add
EVERY: Kinds = ((_READY, _SCHEDULED, _BLOCKED, _WAITS, _LIMITED, _DONE, _RUNS), _COUNTED)
FINISHED: Kinds = ((_DONE, _RUNS), (("q", "done"),))


def prepare(store: Store) -> None:
    """Make the queues; in the limited one every key has all that it may have, so that the rest must wait."""
    store.jobs.add(NewJob("the first", queue="q"))
    store.queues.set(LIMITED, per_key=1)
    store.jobs.add_many([NewJob("the first of its key", queue=LIMITED, limit_key=f"key {n}") for n in range(KEYS)])


def fill(url: str, have: int, want: int, told: Callable[[str], None], kinds: Kinds = EVERY) -> None:
    """Raise each kind from `have` to `want` in a store that was prepared; counters and numbers stay right."""
    if "://" in url:
        _fill_postgres(url, have, want, told, kinds)
    else:
        _fill_file(url, have, want, told, kinds)


def size_of(url: str) -> int:
    """How many bytes it takes."""
    if "://" not in url:
        return os.path.getsize(url)
    where = address(url)
    with psycopg.connect(where.conninfo) as connection:
        ours = "FROM pg_class WHERE relkind = 'r' AND relnamespace = %s::regnamespace"
        text = f"SELECT sum(pg_total_relation_size(oid)) {ours}".encode()
        ((size,),) = connection.execute(text, [where.schema]).fetchall()
    return int(size)


def _fill_postgres(url: str, have: int, want: int, told: Callable[[str], None], kinds: Kinds) -> None:
    where = address(url)
    with psycopg.connect(where.conninfo, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {where.schema}; SET synchronous_commit TO off".encode())
        while have < want:
            count = min(_CHUNK, want - have)
            _add_postgres(connection, count, kinds)
            have += count
            told(f"{have:,} of each")
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")  # else what was filled is written back while claims are measured


def _add_postgres(connection: psycopg.Connection[tuple[Any, ...]], count: int, kinds: Kinds) -> None:
    def draw(name: str, size: int) -> int:
        text = "SELECT setval(%(name)s, nextval(%(name)s) + %(size)s)"
        ((last,),) = connection.execute(text, {"name": f"number_{name}", "size": size - 1}).fetchall()
        return int(last) - size + 1

    ((now,),) = connection.execute("SELECT max(at) FROM event").fetchall()
    for text, values in _plan(draw, count, now, kinds):
        query = re.sub(r":([a-z]+)", r"%(\1)s", text.replace('"n":1', '"n": 1').replace("%", "%%"))
        connection.execute(query.encode(), values)
    for queue, status in kinds[1]:
        connection.execute(_COUNT.replace("?", "%s").encode(), (queue, status, count))


def _plan(draw: Callable[[str, int], int], count: int, now: object, kinds: Kinds) -> list[tuple[str, dict[str, Any]]]:
    """The statements that add so many of each kind, with their values."""
    ready, token = draw("job", 5 * count), draw("token", count)
    scheduled, blocked, limited, done = (ready + n * count for n in (1, 2, 3, 4))
    same = {"low": 0, "high": count - 1}
    plan: list[tuple[str, dict[str, Any]]] = [
        (_READY, {**same, "first": ready, "now": now}),
        (_SCHEDULED, {**same, "first": scheduled, "now": now}),
        (_BLOCKED, {**same, "first": blocked, "now": now}),
        (_WAITS, {**same, "first": blocked, "needs": scheduled}),
        (_LIMITED, {**same, "first": limited, "now": now}),
        (_DONE, {**same, "first": done, "now": now, "token": token}),
        (_RUNS, {**same, "first": done, "now": now, "token": token}),
    ]
    return [(text, values) for text, values in plan if text in kinds[0]]


def _fill_file(path: str, have: int, want: int, told: Callable[[str], None], kinds: Kinds) -> None:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    # Only while filling: the measurements open the file anew, with the durability that rota always has.
    connection.execute("PRAGMA synchronous=OFF; PRAGMA cache_size=-400000")
    while have < want:
        count = min(_CHUNK, want - have)
        with connection:
            _add(connection, count, kinds)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        have += count
        told(f"{have:,} of each")
    connection.close()


def _add(connection: apsw.Connection, count: int, kinds: Kinds) -> None:
    def draw(name: str, size: int) -> int:
        text = "UPDATE number SET value = value + ? WHERE name = ? RETURNING value"
        ((last,),) = connection.execute(text, (size, name)).fetchall()
        return int(str(last)) - size + 1

    ((now,),) = connection.execute("SELECT max(seen_at) FROM boot").fetchall()
    for text, values in _plan(draw, count, now, kinds):
        connection.execute(text, values)
    connection.executemany(_COUNT, [(queue, status, count) for queue, status in kinds[1]])
