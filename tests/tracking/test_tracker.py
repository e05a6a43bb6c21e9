"""`Tracker` as a worker meets it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from rota.core.errors import BadInput
from rota.tracking import Tracker
from rota.tracking.connections import opened
from rota.tracking.schema import install, uninstall
from tests.support.eventually import eventually
from tests.support.postgres import with_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.tracking.connections import Connection

RAISING = """
CREATE OR REPLACE FUNCTION ai._worker_heartbeat(worker_id uuid, num_successes_since_last_heartbeat bigint,
    num_errors_since_last_heartbeat bigint, error_message text) RETURNS void LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION 'no beats today'; END $$
"""


def workers(sql: Connection) -> list[Any]:
    """Beats, successes, errors and message of every worker."""
    return sql.execute(
        "SELECT heartbeat_count, success_count, error_count, last_error_message FROM ai.vectorizer_worker_process"
    ).fetchall()


def progress(sql: Connection) -> list[Any]:
    return sql.execute(
        "SELECT vectorizer_id, success_count, error_count, last_error_message FROM ai.vectorizer_worker_progress"
    ).fetchall()


def beats(sql: Connection) -> int:
    return sum(row[0] for row in workers(sql))


def tracked(tracker: Tracker) -> None:
    eventually(lambda: tracker.state == "tracked")


@pytest.fixture
def slow(url: str) -> Iterator[Tracker]:
    """A tracker that beats once, and then only when it must."""
    with Tracker(url, "1.2.3", every=600) as tracker:
        tracked(tracker)
        yield tracker


def test_a_worker_registers_and_beats_at_once(slow: Tracker, sql: Connection) -> None:
    rows = sql.execute(
        "SELECT id, version, extract(epoch FROM expected_heartbeat_interval)::int FROM ai.vectorizer_worker_process"
    ).fetchall()
    assert rows == [(slow.id, "1.2.3", 600)]
    assert workers(sql) == [(1, 0, 0, None)]


def test_beats_go_on_each_interval_until_closed_and_the_last_brings_the_rest(url: str, sql: Connection) -> None:
    with Tracker(url, "1", every=0.1) as tracker:
        eventually(lambda: beats(sql) >= 4)
        tracker.success(2)
        tracker.error("broke", count=3)
    end = workers(sql)
    assert end == [(end[0][0], 2, 3, "broke")]
    assert tracker.state == "closed"
    assert not any(thread.name == "rota tracking" for thread in threading.enumerate())


def test_closing_sends_a_final_beat_with_what_is_left(slow: Tracker, sql: Connection) -> None:
    slow.success()
    assert slow.close()
    assert workers(sql) == [(2, 1, 0, None)]


def test_a_message_is_kept_until_the_next_and_an_error_without_one_leaves_it(slow: Tracker, sql: Connection) -> None:
    slow.error("first")
    slow.error()
    slow.close()
    assert workers(sql) == [(2, 0, 2, "first")]


def test_progress_is_sent_at_once(slow: Tracker, sql: Connection) -> None:
    slow.progress(1, 5)
    eventually(lambda: progress(sql) == [(1, 5, 0, None)])
    slow.progress(1, 2, error="model not found")
    slow.progress(1, error="still not found")
    eventually(lambda: progress(sql) == [(1, 7, 2, "still not found")])


def test_counting_from_many_threads_loses_nothing(slow: Tracker, sql: Connection) -> None:
    def work() -> None:
        for _ in range(500):
            slow.success()
            slow.error("e")
            slow.progress(1, 1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert slow.close()
    assert workers(sql)[0][1:] == (4000, 4000, "e")
    assert progress(sql) == [(1, 4000, 0, None)]


def test_a_dropped_vectorizer_fails_neither_the_worker_nor_its_beats(slow: Tracker, sql: Connection) -> None:
    slow.progress(99, 1)
    slow.progress(1, 4)
    slow.success(3)
    assert slow.close()
    assert progress(sql) == [(1, 4, 0, None)]
    assert workers(sql)[0][1:] == (3, 0, None)


def test_progress_that_is_refused_waits_and_does_not_fail_the_beat(url: str, sql: Connection) -> None:
    sql.execute("ALTER TABLE ai.vectorizer_worker_progress ADD CONSTRAINT none CHECK (success_count < 0)")
    with Tracker(url, "1", every=0.1) as tracker:
        tracked(tracker)
        tracker.progress(1, 4)
        tracker.success(3)
        eventually(lambda: workers(sql)[0][1] == 3)
        assert progress(sql) == []
        sql.execute("ALTER TABLE ai.vectorizer_worker_progress DROP CONSTRAINT none")
        eventually(lambda: progress(sql) == [(1, 4, 0, None)])
        assert tracker.state == "tracked"


def test_a_worker_goes_on_untracked_when_the_heartbeat_raises_and_nothing_counted_is_lost(
    url: str, sql: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with Tracker(url, "1", every=0.1) as tracker:
        tracked(tracker)
        sql.execute(RAISING)
        tracker.success(7)
        eventually(lambda: tracker.state == "untracked")
        tracker.error("meanwhile")
        assert "no beats today" in tracker.reason
        assert workers(sql)[0][1:] == (0, 0, None)
        eventually(lambda: "untracked" in caplog.text)  # its thread changes the state before it writes the line

        with opened(url) as owner:
            install(owner)
        tracked(tracker)
        eventually(lambda: workers(sql)[0][1:] == (7, 1, "meanwhile"))


def test_a_heartbeat_that_raises_from_the_start_registers_nobody(url: str, sql: Connection) -> None:
    sql.execute(RAISING)
    with Tracker(url, "1", every=0.1) as tracker:
        eventually(lambda: tracker.state == "untracked")
        tracker.close(timeout=0.1)
    assert workers(sql) == []


@pytest.mark.parametrize(("fail_on_loss", "code"), [(True, -signal.SIGTERM), (False, 0)])
def test_a_worker_leaves_when_tracking_is_lost_if_it_wants_to(
    url: str, sql: Connection, fail_on_loss: bool, code: int
) -> None:
    sql.execute(RAISING)
    script = """
import signal, sys
from rota.tracking import Tracker
from tests.support.eventually import eventually
from tests.support.postgres import with_parts
leaves = sys.argv[2] == "True"
tracker = Tracker(sys.argv[1], "1", every=0.1, fail_on_loss=leaves).start()
eventually(lambda: tracker.state == "untracked")
while leaves:
    signal.pause()
tracker.close(timeout=0.1)
"""
    command = [sys.executable, "-c", script, url, str(fail_on_loss)]
    ran = subprocess.run(command, cwd=Path(__file__).parents[2], check=False, timeout=100)
    assert ran.returncode == code


def test_a_pruned_worker_registers_anew(url: str, sql: Connection) -> None:
    with Tracker(url, "1", every=0.1) as tracker:
        tracked(tracker)
        first = tracker.id
        sql.execute("DELETE FROM ai.vectorizer_worker_process")
        eventually(lambda: tracker.id != first)
        tracker.success(2)
    assert [row[1] for row in workers(sql)] == [2]


def test_a_worker_whose_tables_were_dropped_is_untracked_until_they_are_back(url: str) -> None:
    with Tracker(url, "1", every=0.1) as tracker, opened(url) as owner:
        tracked(tracker)
        uninstall(owner)
        eventually(lambda: tracker.state == "untracked")
        assert "rota tracking install" in tracker.reason
        tracker.success(3)
        install(owner)
        tracked(tracker)
        eventually(lambda: [row[1] for row in workers(owner)] == [3])


def test_a_message_that_postgres_cannot_keep_is_mended_and_an_endless_one_cut(slow: Tracker, sql: Connection) -> None:
    slow.error("nul\0 half\ud800" + "x" * 100_000)
    assert slow.close()
    message = workers(sql)[0][3]
    assert message.startswith("nul\N{REPLACEMENT CHARACTER} half?xx")
    assert len(message) == 10_000


def test_a_database_out_of_reach_never_raises_in_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    with Tracker("postgresql://nobody:secret@127.0.0.1:1/none", "1", every=0.1) as tracker:
        tracker.success()
        eventually(lambda: tracker.state == "untracked")
        tracker.close(timeout=0.1)
    assert "secret" not in caplog.text


@pytest.mark.parametrize("bad", ["sqlite:///x", "postgresql://user:p%zz@host/x", "nonsense"])
def test_what_is_no_postgresql_url_is_refused_without_repeating_it(bad: str) -> None:
    with pytest.raises(BadInput) as refused:
        Tracker(bad, "1")
    assert bad not in str(refused.value) and "p%zz" not in str(refused.value)


def test_nonsense_is_refused(slow: Tracker, url: str) -> None:
    for call in (
        lambda: slow.success(-1),
        lambda: slow.error("e", count=-1),
        lambda: slow.progress(1, -1),
        lambda: slow.progress(2**31),
        lambda: Tracker(url, "1", every=0.01),
        lambda: Tracker(url, "1", every=float("nan")),
        lambda: Tracker(url, "1", every=float("inf")),
    ):
        with pytest.raises(BadInput):
            call()


def test_a_restarted_connection_is_opened_anew(url: str, sql: Connection) -> None:
    with Tracker(url, "1", every=0.1) as tracker:
        tracked(tracker)
        before = beats(sql)
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'rota tracking' AND datname = current_database()"
            )
        eventually(lambda: beats(sql) > before + 1)
        assert len(workers(sql)) == 1


def test_progress_that_was_refused_counts_once_when_the_link_breaks_right_after(url: str, sql: Connection) -> None:
    sql.execute(
        """
        INSERT INTO ai.vectorizer (source_table) VALUES ('wiki');
        ALTER TABLE ai.vectorizer_worker_progress ADD CONSTRAINT refused CHECK (vectorizer_id <> 1);
        CREATE FUNCTION break_link() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END';
        CREATE TRIGGER breaks BEFORE INSERT ON ai.vectorizer_worker_progress
        FOR EACH ROW WHEN (NEW.vectorizer_id = 2) EXECUTE FUNCTION break_link();
        """
    )
    with Tracker(url, "1", every=0.1) as tracker:
        tracker.progress(1, 4)
        tracker.progress(2, 5)
        eventually(lambda: tracker.state == "untracked")
        sql.execute("ALTER TABLE ai.vectorizer_worker_progress DROP CONSTRAINT refused")
        sql.execute("DROP TRIGGER breaks ON ai.vectorizer_worker_progress")
        tracked(tracker)
        eventually(lambda: progress(sql) == [(1, 4, 0, None), (2, 5, 0, None)])


def test_progress_by_table_is_that_of_the_vectorizer_that_reads_it_or_of_a_new_one(
    slow: Tracker, sql: Connection
) -> None:
    slow.progress("blog", 5)
    slow.progress("wiki", 2, error="e")
    slow.progress(1, 1)
    assert slow.close()
    assert sorted(progress(sql)) == [(1, 6, 0, None), (2, 2, 1, "e")]
    assert sql.execute("SELECT source_table FROM ai.vectorizer WHERE id = 2").fetchall() == [("wiki",)]


def test_a_vectorizer_that_was_dropped_and_made_anew_gets_what_is_reported_by_its_table(
    slow: Tracker, sql: Connection
) -> None:
    slow.progress("blog", 5)
    eventually(lambda: progress(sql) == [(1, 5, 0, None)])
    sql.execute("DELETE FROM ai.vectorizer")
    sql.execute("INSERT INTO ai.vectorizer (source_table) VALUES ('blog')")
    slow.progress("blog", 3)
    assert slow.close()
    assert progress(sql) == [(2, 3, 0, None)]


def test_progress_by_table_waits_while_its_vectorizer_cannot_be_looked_up(
    url: str, sql: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE ai.vectorizer")
        with Tracker(url, "1", every=0.1) as tracker:
            tracker.progress("wiki", 4)
            tracker.success(3)
            eventually(lambda: workers(sql) and workers(sql)[0][1] == 3, within=60)
            eventually(lambda: "lock timeout" in caplog.text)
            other.rollback()
            eventually(lambda: progress(sql) == [(2, 4, 0, None)], within=60)


def test_progress_by_a_table_that_may_not_be_looked_up_arrives_from_the_day_on_that_it_may(
    url: str, sql: Connection, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(url) as owner:
        install(owner, role)
    sql.execute(f'REVOKE INSERT ON ai.vectorizer FROM "{role}"')
    with Tracker(with_parts(url, user=role), "1", every=600) as tracker:
        tracked(tracker)
        tracker.progress("wiki", 4)
        eventually(lambda: "progress of table wiki is not reported: permission denied" in caplog.text)
        sql.execute(f'GRANT INSERT ON ai.vectorizer TO "{role}"')
        tracker.progress("wiki", 5)
        eventually(lambda: [row[1] for row in progress(sql)] == [5])
