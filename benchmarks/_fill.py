"""Fill a database with millions of jobs by plain SQL, as true as if they had come one by one."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import apsw
import psycopg

from rota.store.postgres.link import address

if TYPE_CHECKING:
    from collections.abc import Callable

# For each n one ready, one scheduled, one blocked (it waits for the scheduled one) and one finished job with its run.
_NUMBERS = "WITH RECURSIVE n (i) AS (SELECT CAST(:low AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < :high)"
_JOB = f"{_NUMBERS} INSERT INTO job (id, queue, kind, title, payload, priority, max_attempts, created_at, status"
_SAME = """SELECT :first + i, 'q', 'noop', 'job ' || i, '{"n":1}', i % 5, 3, :now"""
_READY = f"{_JOB}) {_SAME}, 'ready' FROM n"
_SCHEDULED = f"{_JOB}, due_at, dependents) {_SAME}, 'scheduled', :now + 86400000000 + i, 1 FROM n"
_BLOCKED = f"{_JOB}, blocked_on) {_SAME}, 'blocked', 'dependency' FROM n"
_DONE = f"""{_JOB}, attempts, finished_at, token, worker, orchestrator, claimed_at, result)
{_SAME}, 'done', 1, :now, :token + i, 'worker-00000000', 1, :now, 'null' FROM n"""
_WAITS = f"{_NUMBERS} INSERT INTO dependency (job, needs) SELECT :first + i, :needs + i FROM n"
_RUNS = f"""{_NUMBERS} INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb)
SELECT :token + i, :first + i, 'worker-00000000', 1, 1, :now, :now, 'finish' FROM n"""
_COUNT = """INSERT INTO tally (queue, status, n) VALUES ('q', ?, ?)
ON CONFLICT (queue, status, shard) DO UPDATE SET n = tally.n + excluded.n"""
_CHUNK = 250_000


def fill(url: str, have: int, want: int, told: Callable[[str], None]) -> None:
    """Raise each of ready, scheduled, blocked and finished from `have` to `want`; counters and numbers stay right."""
    if "://" in url:
        _fill_postgres(url, have, want, told)
    else:
        _fill_file(url, have, want, told)


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


def _fill_postgres(url: str, have: int, want: int, told: Callable[[str], None]) -> None:
    where = address(url)
    with psycopg.connect(where.conninfo, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {where.schema}; SET synchronous_commit TO off".encode())
        while have < want:
            count = min(_CHUNK, want - have)
            _add_postgres(connection, count)
            have += count
            told(f"{have:,} of each")
        connection.execute("VACUUM ANALYZE")


def _add_postgres(connection: psycopg.Connection[tuple[Any, ...]], count: int) -> None:
    def draw(name: str, size: int) -> int:
        text = "SELECT setval(%(name)s, nextval(%(name)s) + %(size)s)"
        ((last,),) = connection.execute(text, {"name": f"number_{name}", "size": size - 1}).fetchall()
        return int(last) - size + 1

    ((now,),) = connection.execute("SELECT max(at) FROM event").fetchall()
    first, token = draw("job", 4 * count), draw("token", count)
    values = {"low": 0, "high": count - 1, "now": now, "token": token}
    for text, more in (
        (_READY, {"first": first}),
        (_SCHEDULED, {"first": first + count}),
        (_BLOCKED, {"first": first + 2 * count}),
        (_WAITS, {"first": first + 2 * count, "needs": first + count}),
        (_DONE, {"first": first + 3 * count}),
        (_RUNS, {"first": first + 3 * count}),
    ):
        query = re.sub(r":([a-z]+)", r"%(\1)s", text.replace('"n":1', '"n": 1').replace("%", "%%"))
        connection.execute(query.encode(), {**values, **more})
    for status in ("ready", "scheduled", "blocked", "done"):
        connection.execute(_COUNT.replace("?", "%s").encode(), (status, count))


def _fill_file(path: str, have: int, want: int, told: Callable[[str], None]) -> None:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    # Only while filling: the measurements open the file anew, with the durability that rota always has.
    connection.execute("PRAGMA synchronous=OFF; PRAGMA cache_size=-400000")
    while have < want:
        count = min(_CHUNK, want - have)
        with connection:
            _add(connection, count)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        have += count
        told(f"{have:,} of each")
    connection.close()


def _add(connection: apsw.Connection, count: int) -> None:
    def draw(name: str, size: int) -> int:
        text = "UPDATE number SET value = value + ? WHERE name = ? RETURNING value"
        ((last,),) = connection.execute(text, (size, name)).fetchall()
        return int(str(last)) - size + 1

    ((now,),) = connection.execute("SELECT max(seen_at) FROM boot").fetchall()
    first, token, numbers = draw("job", 4 * count), draw("token", count), {"low": 0, "high": count - 1, "now": now}
    connection.execute(_READY, {**numbers, "first": first})
    connection.execute(_SCHEDULED, {**numbers, "first": first + count})
    connection.execute(_BLOCKED, {**numbers, "first": first + 2 * count})
    connection.execute(_WAITS, {**numbers, "first": first + 2 * count, "needs": first + count})
    connection.execute(_DONE, {**numbers, "first": first + 3 * count, "token": token})
    connection.execute(_RUNS, {**numbers, "first": first + 3 * count, "token": token})
    connection.executemany(_COUNT, [(status, count) for status in ("ready", "scheduled", "blocked", "done")])
