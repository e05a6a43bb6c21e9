"""The raw limit on PostgreSQL: the rows that rota writes, in one statement per exchange with nothing around it.

Same columns, indexes and checks, since the schema is rota's own; the same durability, a run row per job, and an event
row and counters per batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from rota.settings import Settings
from rota.store.open import open_store
from rota.store.postgres.connection import address
from rota.store.postgres.session import PLANS, set_all

if TYPE_CHECKING:
    from collections.abc import Sequence

INSERT = """INSERT INTO job (id, queue, kind, title, payload, priority, status, max_attempts, created_at)
SELECT nextval('number_job'), 'q', 'noop', 'job', payload, 0, 'ready', 3, 1 FROM unnest(%s::text[]) AS payload"""
EXCHANGE = """WITH settled AS (
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


class RawPostgres:
    """A queue without rules: it is filled and drained as fast as the rows can be written."""

    def __init__(self, url: str) -> None:
        open_store(url, Settings(), make=True).close()
        where = address(url)
        self._connection = psycopg.connect(where.conninfo, autocommit=True)
        self._connection.execute(f"SELECT {set_all({'search_path': where.schema, **PLANS}, local=False)}".encode())

    def insert(self, payloads: Sequence[str]) -> None:
        """Add jobs in one transaction."""
        self._connection.execute(INSERT, [list(payloads)])

    def exchange(self, held: Sequence[Any], want: int) -> list[Any]:
        """Settle the jobs held and claim up to `want` others, in one transaction."""
        return self._connection.execute(EXCHANGE, {"held": [row[0] for row in held], "want": want}).fetchall()

    def close(self) -> None:
        self._connection.close()
