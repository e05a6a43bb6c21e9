"""How PostgreSQL plans each named statement in a session of rota, whether its tables were ever analysed or not."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from rota.store.engine.statements import FOLDER, read_statements
from rota.store.postgres.database import PostgresDatabase
from rota.store.postgres.dialect import KEPT, as_statement
from tests.support.stores import make_store, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store

pytestmark = pytest.mark.postgres

# A count of all jobs, which `doctor` asks for, and one of old events, for `rota prune --dry-run`.
READ_ALL = {"tally.true", "event.count_before"}
# What may be very many.
LARGE = {"job", "run", "event", "dependency", "source_memory"}
FILL = f"""
INSERT INTO job (id, queue, kind, title, priority, status, blocked_on, due_at, due_wall, key, source, limit_key, parent,
    max_attempts, created_at, finished_at, token, worker, orchestrator, claimed_at)
SELECT n, 'q' || n % 5, 'k' || n % 5, 'title', 0, status, CASE WHEN status = 'blocked' THEN 'dependency' END,
    CASE WHEN status = 'scheduled' THEN {1 << 60} END, n % 2, CASE WHEN n % 10 = 0 THEN 'key' || n END,
    CASE WHEN n % 20 = 0 THEN 'x' END, CASE WHEN n % 3 = 0 THEN 'lk' || n % 7 END, n / 2, 3, n,
    CASE WHEN status IN ('done', 'failed') THEN n END, n, 'w' || n % 50, 1, 1
FROM (SELECT n, CASE WHEN n % 99 = 0 THEN 'active' WHEN n % 50 = 0 THEN 'failed' WHEN n % 5 = 0 THEN 'done'
    WHEN n % 5 = 1 THEN 'ready' WHEN n % 5 = 2 THEN 'blocked' ELSE 'scheduled' END AS status
    FROM generate_series(1, 20000) AS n) AS made;
INSERT INTO run (token, job, worker, attempt, generation, claimed_at, ended_at, verb)
SELECT n, n, 'w' || n % 50, 1, 1, 1, 2, 'finish' FROM generate_series(1, 20000) AS n;
INSERT INTO dependency (job, needs) SELECT n, n - 1 FROM generate_series(2, 20000, 5) AS n;
INSERT INTO event (at, actor, facts) SELECT n, 'a', '[]' FROM generate_series(1, 20000) AS n;
INSERT INTO source_memory (source, hash, successes, at, token)
SELECT 'x', n, 1, n, n FROM generate_series(1, 20000) AS n;
"""
BY_TYPE = {
    "bigint": "100",
    "integer": "100",
    "text": "'x'",
    "boolean": "true",
    "json": "'[5, 6, 7]'",
    "jsonb": "'{\"5\": 6}'",
    "pg_snapshot": "'700:700:'",
    "bigint[]": "'{5,6,7}'",
    "text[]": "'{x,y}'",
}
BY_NAME = {"after": "19000", "before": "1000", "queue": "'q1'", "status": "'ready'", "worker": "'w3'", "key": "'key10'"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with make_store("postgres", tmp_path) as made:
        for table in LARGE:
            rows(made, f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        yield made


def names() -> Iterator[str]:
    """Every statement that runs in a schema of rota that is there."""
    for file in os.listdir(FOLDER):
        if file.endswith(".sql") and file not in ("clock.sql", "migration.sql"):
            yield from (f"{file.removesuffix('.sql')}.{verb}" for verb in read_statements(os.path.join(FOLDER, file)))


def plan_of(database: PostgresDatabase, name: str) -> dict[str, Any]:
    """What the server would do, in a session of rota's own; a plan that is kept knows no values."""
    statement, ask = as_statement(database.texts.plain(name)), database.session.connection.execute
    ask(b"PREPARE planned AS " + statement.text)
    try:
        found = ask("SELECT CAST(parameter_types AS text[]) FROM pg_prepared_statements WHERE name = 'planned'")
        ((types,),) = found.fetchall()
        values = [
            BY_NAME.get(name, BY_TYPE[kind]) if kind in ("bigint", "text") else BY_TYPE.get(kind, "'x'")
            for name, kind in zip(statement.names, types, strict=True)
        ]
        ask(f"SET plan_cache_mode = force_{'generic' if name in KEPT else 'custom'}_plan".encode())
        given = f"({', '.join(values)})" if values else ""
        told = ask(f"EXPLAIN (FORMAT JSON) EXECUTE planned{given}".encode())
        ((document,),) = told.fetchall()
    finally:
        ask("DEALLOCATE planned")
    plan: dict[str, Any] = (json.loads(document) if isinstance(document, str) else document)[0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


@pytest.mark.parametrize("analysed", [False, True], ids=["never analysed", "analysed"])
def test_no_statement_reads_a_large_table_whole_or_costs_what_a_server_would_compile(
    store: Store, analysed: bool
) -> None:
    rows(store, FILL)
    if analysed:
        rows(store, "ANALYZE")
    database, wrong = store.database, []
    assert isinstance(database, PostgresDatabase)
    (jit_above_cost,) = rows(store, "SELECT CAST(current_setting('jit_above_cost') AS float)")[0]
    for name in sorted({*names(), *database.texts.own}):
        if name.partition(".")[0] in ("schema", "role"):
            continue
        plan = plan_of(database, name)
        whole = {each["Relation Name"] for each in nodes(plan) if each["Node Type"] == "Seq Scan"} & LARGE
        if (whole and name not in READ_ALL) or plan["Total Cost"] > jit_above_cost:
            wrong.append((name, plan["Total Cost"], whole))
    assert wrong == []
