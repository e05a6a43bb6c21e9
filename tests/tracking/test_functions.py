"""The functions in schema `ai`, called as existing workers call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest

if TYPE_CHECKING:
    from rota.tracking.connections import Connection

START = "SELECT ai._worker_start('0.1.0', interval '30 seconds')"


def one(sql: Connection, text: str, *values: object) -> tuple[Any, ...]:
    row = sql.execute(text.encode(), values).fetchone()
    assert row is not None
    return row


def beat(sql: Connection, worker: object, successes: int, errors: int, message: str | None) -> tuple[Any, ...]:
    """Beats, successes, errors and message after a beat."""
    one(sql, "SELECT ai._worker_heartbeat(%s, %s, %s, %s)", worker, successes, errors, message)
    return one(
        sql,
        "SELECT heartbeat_count, success_count, error_count, last_error_message FROM ai.vectorizer_worker_process"
        " WHERE id = %s",
        worker,
    )


def report(sql: Connection, worker: object, successes: int, message: str | None) -> tuple[Any, ...]:
    """Successes and errors of vectorizer 1 after a report."""
    one(sql, "SELECT ai._worker_progress(%s, 1, %s, %s)", worker, successes, message)
    return one(sql, "SELECT success_count, error_count FROM ai.vectorizer_worker_progress WHERE vectorizer_id = 1")


def progress(sql: Connection) -> tuple[Any, ...]:
    return one(
        sql,
        "SELECT last_success_at, last_success_process_id, last_error_at, last_error_process_id, last_error_message,"
        " updated_at FROM ai.vectorizer_worker_progress",
    )


def test_beats_count_up_in_the_documented_sequence(sql: Connection) -> None:
    (worker,) = one(sql, START)

    assert beat(sql, worker, 10, 0, None) == (1, 10, 0, None)
    assert beat(sql, worker, 5, 3, "e1") == (2, 15, 3, "e1")
    assert beat(sql, worker, 7, 0, None) == (3, 22, 3, "e1")
    assert beat(sql, worker, 0, 1, "e2") == (4, 22, 4, "e2")


def test_progress_counts_up_in_the_documented_sequence_across_workers(sql: Connection) -> None:
    (first,), (second,) = one(sql, START), one(sql, START)

    assert report(sql, first, 5, None) == (5, 0)
    assert report(sql, first, 0, "e") == (5, 1)
    assert report(sql, first, 3, None) == (8, 1)
    assert report(sql, second, 10, None) == (18, 1)
    _, succeeded, _, failed, message, _ = progress(sql)
    assert (succeeded, failed, message) == (second, first, "e")


def test_an_error_report_counts_one_error_and_its_successes_and_leaves_the_last_success_alone(sql: Connection) -> None:
    (worker,) = one(sql, START)
    report(sql, worker, 1, None)
    before = progress(sql)

    assert report(sql, worker, 4, "broke") == (5, 1)
    after = progress(sql)
    assert after[:2] == before[:2]
    assert after[2] == after[5] > before[5]


def test_the_first_report_may_be_an_error(sql: Connection) -> None:
    (worker,) = one(sql, START)

    assert report(sql, worker, 0, "no model") == (0, 1)
    assert progress(sql)[:2] == (None, None)


def test_a_registered_worker_has_not_beaten_and_starts_with_a_clean_sheet(sql: Connection) -> None:
    (worker,) = one(sql, START)
    row = one(sql, "SELECT *, extract(epoch FROM expected_heartbeat_interval) FROM ai.vectorizer_worker_process")

    assert row[:2] == (worker, "0.1.0")
    assert row[2] == row[4]
    assert (*row[5:10], float(row[10])) == (0, 0, 0, None, None, 30.0)


def test_an_error_comes_with_its_beats_time_and_errors_without_a_message_leave_the_last_alone(sql: Connection) -> None:
    (worker,) = one(sql, START)
    times = "SELECT last_heartbeat, last_error_at FROM ai.vectorizer_worker_process"
    beat(sql, worker, 0, 1, "e1")
    at, failed_at = one(sql, times)
    assert failed_at == at

    assert beat(sql, worker, 0, 2, None) == (2, 0, 3, "e1")
    later, still = one(sql, times)
    assert still == failed_at and later > at


def test_two_calls_in_one_transaction_have_different_times(sql: Connection) -> None:
    with sql.transaction():
        (first,), (second,) = one(sql, START), one(sql, START)
        started = sql.execute("SELECT started FROM ai.vectorizer_worker_process ORDER BY started").fetchall()
        beat(sql, first, 0, 1, "x")
        beat(sql, second, 0, 1, "y")
        beaten = sql.execute("SELECT DISTINCT last_heartbeat FROM ai.vectorizer_worker_process").fetchall()
        report(sql, first, 1, None)
        reported = progress(sql)[5]
        report(sql, first, 1, None)

        assert started[0] < started[1]
        assert len(beaten) == 2
        assert progress(sql)[5] > reported


def test_a_beat_of_an_unknown_worker_is_silent(sql: Connection) -> None:
    one(sql, "SELECT ai._worker_heartbeat(%s, 1, 0, NULL)", uuid4())
    assert one(sql, "SELECT count(*) FROM ai.vectorizer_worker_process") == (0,)


def test_progress_of_an_unknown_vectorizer_is_a_foreign_key_error_and_of_an_unknown_worker_is_none(
    sql: Connection,
) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        sql.execute("SELECT ai._worker_progress(gen_random_uuid(), 99, 1, NULL)")
    assert report(sql, uuid4(), 1, None) == (1, 0)


def test_dropping_a_vectorizer_drops_its_progress_and_pruning_a_worker_keeps_it(sql: Connection) -> None:
    (worker,) = one(sql, START)
    report(sql, worker, 1, None)
    sql.execute("DELETE FROM ai.vectorizer_worker_process")
    assert one(sql, "SELECT count(*) FROM ai.vectorizer_worker_progress") == (1,)

    sql.execute("DELETE FROM ai.vectorizer")
    assert one(sql, "SELECT count(*) FROM ai.vectorizer_worker_progress") == (0,)


def test_counts_go_beyond_four_bytes(sql: Connection) -> None:
    (worker,) = one(sql, START)
    assert beat(sql, worker, 3_000_000_000, 0, None)[1] == 3_000_000_000
    assert report(sql, worker, 3_000_000_000, None) == (3_000_000_000, 0)


def test_functions_run_with_the_callers_rights_and_a_pinned_search_path(sql: Connection) -> None:
    rows = sql.execute(
        "SELECT prosecdef, proconfig FROM pg_proc WHERE pronamespace = 'ai'::regnamespace ORDER BY proname"
    ).fetchall()
    assert rows == [(False, ["search_path=pg_catalog, pg_temp"])] * 3
