"""Fill a database with millions of jobs by plain SQL, as true as if they had come one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable

# For each n one ready, one scheduled, one blocked (it waits for the scheduled one) and one finished job with its run.
_NUMBERS = "WITH RECURSIVE n (i) AS (SELECT :low UNION ALL SELECT i + 1 FROM n WHERE i < :high)"
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


def fill(path: str, have: int, want: int, told: Callable[[str], None]) -> None:
    """Raise each of ready, scheduled, blocked and finished from `have` to `want`; counters and numbers stay right."""
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
