"""The queries that operators already have, as they stand, in psql."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.postgres import Server, psql

if TYPE_CHECKING:
    from rota.tracking.connections import Connection

DEAD = """
SELECT id, version, last_heartbeat, success_count, error_count
FROM ai.vectorizer_worker_process
WHERE last_heartbeat < now() - expected_heartbeat_interval * 2;
"""
HEALTH = """
SELECT v.id, v.source_table, p.success_count, p.error_count,
       p.last_error_message, p.updated_at
FROM ai.vectorizer v
LEFT JOIN ai.vectorizer_worker_progress p ON p.vectorizer_id = v.id
ORDER BY v.id;
"""
CLEANUP = """
DELETE FROM ai.vectorizer_worker_process
WHERE last_heartbeat < now() - interval '7 days';
"""
WORKER = "a0b1c2d3-0000-4000-8000-000000000001"


def add_dead(sql: Connection) -> None:
    sql.execute(
        "INSERT INTO ai.vectorizer_worker_process (id, version, expected_heartbeat_interval, last_heartbeat)"
        " VALUES (%s, '0.1.0', interval '30 seconds', now() - interval '8 days')",
        (WORKER,),
    )


def test_the_documented_calls_run_as_written(postgres: Server, url: str, sql: Connection) -> None:
    psql(
        postgres,
        url,
        f"""
        INSERT INTO ai.vectorizer_worker_process (id, version, expected_heartbeat_interval)
        VALUES ('{WORKER}', '0.1.0', '30 s');
        SELECT ai._worker_start('0.1.0', interval '30 seconds');
        SELECT ai._worker_heartbeat('{WORKER}', 42, 0, NULL);
        SELECT ai._worker_heartbeat('{WORKER}', 10, 3, 'API 429');
        SELECT ai._worker_progress('{WORKER}', 1, 5, NULL);
        SELECT ai._worker_progress('{WORKER}', 1, 0, 'model not found');
        """,
    )
    counts = sql.execute("SELECT success_count, error_count FROM ai.vectorizer_worker_process ORDER BY 1").fetchall()
    assert counts == [(0, 0), (52, 3)]
    assert psql(postgres, url, HEALTH).startswith("1|blog|5|1|model not found|")


def test_the_documented_query_finds_the_dead_and_only_them(postgres: Server, url: str, sql: Connection) -> None:
    psql(postgres, url, "SELECT ai._worker_start('0.1.0', interval '30 seconds')")
    assert psql(postgres, url, DEAD) == ""

    add_dead(sql)
    assert psql(postgres, url, DEAD).startswith(f"{WORKER}|0.1.0|")


def test_the_documented_health_shows_a_vectorizer_that_nobody_worked_on(postgres: Server, url: str) -> None:
    assert psql(postgres, url, HEALTH) == "1|blog||||"


def test_the_documented_cleanup_removes_the_old_and_only_them(postgres: Server, url: str, sql: Connection) -> None:
    psql(postgres, url, "SELECT ai._worker_start('0.1.0', interval '30 seconds')")
    add_dead(sql)
    psql(postgres, url, CLEANUP)
    rows = sql.execute("SELECT count(*) FROM ai.vectorizer_worker_process").fetchall()
    assert rows == [(1,)]
