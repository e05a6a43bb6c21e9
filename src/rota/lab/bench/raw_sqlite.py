"""The raw limit: the rows that rota writes, written by plain apsw statements with nothing around them.

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

from rota.store.engine import rows
from rota.store.engine.statements import fill
from rota.store.migrate import migrations
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


class RawSqlite:
    """A queue without rules: it is filled and drained as fast as the rows can be written."""

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
