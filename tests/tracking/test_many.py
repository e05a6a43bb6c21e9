"""A thousand workers beat at once, over a handful of connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.tracking import Connections, Tracker
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from rota.tracking.connections import Connection

WORKERS, BEATS = 1_000, 3


def test_a_thousand_trackers_beat_without_a_loss(url: str, sql: Connection) -> None:
    with Connections(url, most=4, patience=60) as connections:
        trackers = [Tracker(connections, "1", every=2).start() for _ in range(WORKERS)]
        for tracker in trackers:
            tracker.success(2)
            tracker.progress(1, 1)
        beaten = "SELECT count(*) FROM ai.vectorizer_worker_process WHERE heartbeat_count >= %s"
        eventually(lambda: sql.execute(beaten, (BEATS,)).fetchone() == (WORKERS,), within=90, every=0.1)
        assert {tracker.state for tracker in trackers} == {"tracked"}
        opened = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rota tracking'"
        (open_now,) = sql.execute(f"{opened} AND datname = current_database()".encode()).fetchone() or (None,)
        assert open_now == 4
        arrived = [tracker.close(timeout=60) for tracker in trackers]
        assert all(arrived)

    rows = sql.execute("SELECT count(*), sum(success_count), sum(error_count) FROM ai.vectorizer_worker_process")
    assert rows.fetchall() == [(WORKERS, 2 * WORKERS, 0)]
    assert sql.execute("SELECT success_count FROM ai.vectorizer_worker_progress").fetchall() == [(WORKERS,)]
