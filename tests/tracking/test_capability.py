"""A worker that cannot be tracked here knows why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.tracking import Tracker
from rota.tracking.connections import opened
from rota.tracking.schema import install
from tests.support.eventually import eventually
from tests.support.postgres import with_parts

if TYPE_CHECKING:
    from rota.tracking.connections import Connection


def test_without_tables_the_worker_runs_untracked_and_knows_that_they_are_absent(empty: str) -> None:
    with Tracker(empty, "1", every=0.1) as tracker:
        eventually(lambda: tracker.state == "absent")
        assert "ai.vectorizer_worker_process" in tracker.reason
        tracker.success()
        tracker.progress(1, 1)


def test_without_tables_nobody_hears_of_counts_that_nobody_waits_for(
    empty: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Tracker(empty, "1") as tracker:
        tracker.success()  # it may be over before it has looked
    assert tracker.state == "closed"
    assert "did not arrive" not in caplog.text


def test_without_grants_the_worker_runs_untracked_and_knows_which_are_missing(
    url: str, sql: Connection, role: str
) -> None:
    theirs = with_parts(url, user=role)
    with Tracker(theirs, "1", every=0.1) as tracker:
        eventually(lambda: tracker.state == "forbidden")
        assert f'GRANT USAGE ON SCHEMA ai TO "{role}"' in tracker.reason
        assert f'GRANT SELECT, INSERT, UPDATE ON ai.vectorizer_worker_progress TO "{role}"' in tracker.reason

    sql.execute(f'GRANT USAGE ON SCHEMA ai TO "{role}"'.encode())
    sql.execute(f'GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA ai TO "{role}"'.encode())
    sql.execute("REVOKE EXECUTE ON FUNCTION ai._worker_start FROM PUBLIC")
    with Tracker(theirs, "1", every=0.1) as tracker:
        eventually(lambda: tracker.state == "forbidden")
        wanted = f'GRANT EXECUTE ON FUNCTION ai._worker_start(text,interval) TO "{role}"'
        assert tracker.reason == f"rights are missing: {wanted}"


def test_what_grant_gives_is_enough(url: str, sql: Connection, role: str) -> None:
    theirs = with_parts(url, user=role)
    with opened(url) as owner:
        install(owner, role)
    with Tracker(theirs, "1", every=0.1) as tracker:
        eventually(lambda: tracker.state == "tracked")
        tracker.progress(1, 1)
        assert tracker.close()
    assert sql.execute("SELECT success_count FROM ai.vectorizer_worker_progress").fetchall() == [(1,)]


def test_functions_with_int_are_called_as_well(empty: str) -> None:
    with opened(empty) as owner:
        install(owner)
        uninstalled = "ai._worker_heartbeat(uuid, bigint, bigint, text)"
        body = owner.execute(f"SELECT pg_get_functiondef('{uninstalled}'::regprocedure)".encode()).fetchone()
        assert body is not None
        owner.execute(f"DROP FUNCTION {uninstalled}".encode())
        owner.execute(str(body[0]).replace("bigint", "integer").encode())
        with Tracker(empty, "1", every=600) as tracker:
            eventually(lambda: tracker.state == "tracked")
            tracker.success(5)
        assert owner.execute("SELECT success_count FROM ai.vectorizer_worker_process").fetchall() == [(5,)]
