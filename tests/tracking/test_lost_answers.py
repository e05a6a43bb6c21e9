"""Deltas are applied exactly once, wherever the link breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from rota.tracking import Connections, Tracker
from tests.support.cable import CUT_AFTER, CUT_BEFORE, HOLD, STALL, Cable, cable
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.tracking.connections import Connection


@pytest.fixture
def link(url: str) -> Iterator[Cable]:
    with cable(url) as laid:
        yield laid


@pytest.fixture
def connections(link: Cable) -> Iterator[Connections]:
    """A connection that is cut off after a second."""
    with Connections(link.url, patience=1) as found:
        yield found


@pytest.fixture(params=[1, "wiki"], ids=["a vectorizer", "a table without one yet"])
def vectorizer(request: pytest.FixtureRequest) -> int | str:
    """Whose progress is reported; one that goes by its table is made by the beat that reports it first."""
    return cast("int | str", request.param)


def totals(sql: Connection) -> list[Any]:
    """Successes and errors of each worker, and of each vectorizer."""
    return sql.execute(
        "SELECT success_count, error_count FROM ai.vectorizer_worker_process"
        " UNION ALL SELECT success_count, error_count FROM ai.vectorizer_worker_progress"
    ).fetchall()


def work(tracker: Tracker, vectorizer: int | str = 1) -> None:
    tracker.success(10)
    tracker.error("e", count=3)
    tracker.progress(vectorizer, 7)
    tracker.progress(vectorizer, 2, error="e")


@pytest.mark.parametrize("fault", [CUT_BEFORE, CUT_AFTER, STALL])
def test_a_beat_is_applied_once_when_its_commit_or_its_answer_is_lost(
    link: Cable, connections: Connections, sql: Connection, fault: str, vectorizer: int | str
) -> None:
    with Tracker(connections, "1", every=0.1) as tracker:
        eventually(lambda: tracker.state == "tracked")
        link.fault = fault
        work(tracker, vectorizer)
        eventually(lambda: link.faults == 1)
        work(tracker, vectorizer)
        eventually(lambda: totals(sql) == [(20, 6), (18, 2)])
        assert tracker.close()

    assert totals(sql) == [(20, 6), (18, 2)]


@pytest.mark.parametrize("fault", [CUT_BEFORE, CUT_AFTER, STALL])
def test_a_worker_registers_once_when_that_answer_is_lost(
    link: Cable, connections: Connections, sql: Connection, fault: str, vectorizer: int | str
) -> None:
    link.fault = fault
    tracker = Tracker(connections, "1", every=0.1)
    work(tracker, vectorizer)
    with tracker:
        eventually(lambda: tracker.state == "tracked")

    assert link.faults == 1
    assert totals(sql) == [(10, 3), (9, 1)]


@pytest.mark.parametrize("registered", [True, False])
def test_a_commit_that_comes_late_is_waited_for(
    link: Cable, sql: Connection, registered: bool, vectorizer: int | str
) -> None:
    tracker = Tracker(link.url, "1", every=0.1)
    if registered:
        with tracker._connections.borrow() as connection:
            tracker._outbox.send(connection)
    link.fault = HOLD
    work(tracker, vectorizer)
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with tracker:
        # The tracker is back on a new connection while its old transaction is still open.
        eventually(lambda: sql.execute(waiting).fetchone() == (1,))
        assert totals(sql) == ([(0, 0)] if registered else [])
        link.release.set()
        eventually(lambda: tracker.state == "tracked" and tracker.unsent.successes == 0)

    assert totals(sql) == [(10, 3), (9, 1)]


def test_the_final_beat_is_applied_once_when_its_answer_is_lost(link: Cable, sql: Connection) -> None:
    tracker = Tracker(link.url, "1", every=600).start()
    eventually(lambda: tracker.state == "tracked")
    tracker.success(5)
    link.fault = CUT_AFTER

    assert tracker.close()
    assert link.faults == 1
    assert totals(sql) == [(5, 0)]


def test_counts_survive_a_database_that_is_away_and_arrive_when_it_is_back(link: Cable, sql: Connection) -> None:
    with Tracker(link.url, "1", every=0.1) as tracker:
        eventually(lambda: tracker.state == "tracked")
        link.down = True
        link.cut()
        work(tracker)
        eventually(lambda: tracker.state == "untracked")
        work(tracker)
        assert totals(sql) == [(0, 0)]
        link.down = False
        eventually(lambda: totals(sql) == [(20, 6), (18, 2)])
        eventually(lambda: tracker.state == "tracked")


def test_closing_without_a_database_says_that_counts_were_lost(link: Cable, caplog: pytest.LogCaptureFixture) -> None:
    tracker = Tracker(link.url, "1", every=0.1).start()
    eventually(lambda: tracker.state == "tracked")
    link.down = True
    link.cut()
    tracker.success(5)

    assert not tracker.close(timeout=0.5)
    assert "did not arrive" in caplog.text
    assert tracker.unsent.successes == 5
