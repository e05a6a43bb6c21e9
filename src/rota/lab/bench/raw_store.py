"""The raw limit: the rows that rota writes, written by plain statements with nothing around them.

Same columns, indexes and checks, since the schema is rota's own; the same durability, the same lock before a write,
a run row per job, and an event row and counters per batch. The ratio to it shows what rota adds.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any

import apsw

from rota.settings import Settings
from rota.store.engine import rows
from rota.store.engine.statements import fill
from rota.store.migrate import migrations
from rota.store.open import open_store
from rota.store.sqlite.database import GAPS

if TYPE_CHECKING:
    from collections.abc import Sequence

INSERT = """INSERT INTO job (id, queue, kind, title, payload, priority, status, max_attempts, created_at)
VALUES (?, 'q', 'noop', ?, ?, 0, 'ready', 3, ?)"""
SETTLE = """UPDATE job SET status = 'done', result = ?, finished_at = ?, attempts = attempts + 1
WHERE id = ? AND token = ? AND status = 'active'"""
RECORD = """INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb)
VALUES (?, ?, 'w', 1, 1, ?, ?, 'finish')"""
CLAIM = """UPDATE job SET status = 'active', token = ? + id, worker = 'w', orchestrator = 1, claimed_at = ?
WHERE id IN (SELECT id FROM job WHERE queue = 'q' AND status = 'ready' ORDER BY priority DESC, id LIMIT ?)
RETURNING id, token, kind, title, payload"""
EVENT = "INSERT INTO event (at, actor, facts) VALUES (?, 'o', ?)"
COUNT = """INSERT INTO tally (queue, status, n) VALUES ('q', ?, ?)
ON CONFLICT (queue, status, shard) DO UPDATE SET n = tally.n + excluded.n"""
POSTGRES_INSERT = """INSERT INTO job (id, queue, kind, title, payload, priority, status, max_attempts, created_at)
SELECT nextval('number_job'), 'q', 'noop', 'job', payload, 0, 'ready', 3, 1 FROM unnest(%s::text[]) AS payload"""
POSTGRES_EXCHANGE = """WITH settled AS (
    UPDATE job SET status = 'done', result = 'null', finished_at = 1, attempts = attempts + 1
    WHERE id = ANY (%(held)s) AND status = 'active' RETURNING id, token
), recorded AS (
    INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb)
    SELECT token, id, 'w', 1, 1, 1, 1, 'finish' FROM settled
), picked AS (
    SELECT id FROM job WHERE queue = 'q' AND status = 'ready' ORDER BY priority DESC, id LIMIT %(want)s
    FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE job SET status = 'active', token = nextval('number_token'), worker = 'w', orchestrator = 1, claimed_at = 1
    FROM picked WHERE job.id = picked.id RETURNING job.id, kind, title, payload
), told AS (
    INSERT INTO event (at, actor, facts) SELECT 1, 'o', (SELECT json_agg(id)::text FROM settled)
    WHERE EXISTS (SELECT 1 FROM settled)
), counted AS (
    INSERT INTO tally (queue, status, n) VALUES ('q', 'done', 1), ('q', 'active', 1), ('q', 'ready', -1)
    ON CONFLICT (queue, status, shard) DO UPDATE SET n = tally.n + excluded.n
)
SELECT id, kind, title, payload FROM claimed"""


class RawSqlite:
    """A queue without rules on SQLite: it is filled and drained as fast as the rows can be written."""

    def __init__(self, path: str) -> None:
        new = not os.path.exists(path)
        self._lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        self._store = apsw.Connection(path)
        self._store.pragma("journal_mode", "wal")
        self._store.pragma("synchronous", "full")
        for _, _, text in migrations().values() if new else ():
            self._store.execute(fill(text, {**rows.GAPS, **GAPS}))
        self._last_id = 0

    def insert(self, payloads: Sequence[str]) -> None:
        """Add jobs in one transaction."""
        now = time.time_ns() // 1000
        first, self._last_id = self._last_id + 1, self._last_id + len(payloads)
        self._begin()
        self._store.executemany(
            INSERT, [(id, f"job {id}", payload, now) for id, payload in enumerate(payloads, start=first)]
        )
        self._commit()

    def exchange(self, held: Sequence[Any], want: int) -> list[Any]:
        """Settle the jobs held and claim up to `want` others, in one transaction."""
        now = time.time_ns() // 1000
        self._begin()
        if held:
            self._store.executemany(SETTLE, [("null", now, id, token) for id, token, *_ in held])
            self._store.executemany(RECORD, [(token, id, now, now) for id, token, *_ in held])
        claimed = sorted(self._store.execute(CLAIM, (0, now, want)))
        facts = [["finish", [id for id, *_ in held]], ["claim", [id for id, *_ in claimed]]]
        self._store.execute(EVENT, (now, json.dumps(facts, separators=(",", ":"))))
        counts = (("done", len(held)), ("active", len(claimed) - len(held)), ("ready", -len(claimed)))
        self._store.executemany(COUNT, counts)
        self._commit()
        return claimed

    def close(self) -> None:
        self._store.close()
        os.close(self._lock)

    def _begin(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._store.execute("BEGIN IMMEDIATE")

    def _commit(self) -> None:
        self._store.execute("COMMIT")
        fcntl.flock(self._lock, fcntl.LOCK_UN)


class RawPostgres:
    """A queue without rules on PostgreSQL, which is filled and drained with one statement each."""

    def __init__(self, url: str) -> None:
        import psycopg  # an optional extra

        from rota.store.postgres.connection import address
        from rota.store.postgres.session import PLANS, set_all

        open_store(url, Settings(), make=True).close()
        where = address(url)
        self._connection = psycopg.connect(where.conninfo, autocommit=True)
        self._connection.execute(f"SELECT {set_all({'search_path': where.schema, **PLANS}, local=False)}".encode())

    def insert(self, payloads: Sequence[str]) -> None:
        """Add jobs in one transaction."""
        self._connection.execute(POSTGRES_INSERT, [list(payloads)])

    def exchange(self, held: Sequence[Any], want: int) -> list[Any]:
        """Settle the jobs held and claim up to `want` others, in one transaction."""
        return self._connection.execute(POSTGRES_EXCHANGE, {"held": [row[0] for row in held], "want": want}).fetchall()

    def close(self) -> None:
        self._connection.close()
