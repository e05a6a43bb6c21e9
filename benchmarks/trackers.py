"""A thousand trackers beat for a minute, on a few connections, while each counts what it does.

    python -m benchmarks.trackers --minutes 1

The trackers are those that workers use, a thread each, in one process. A beat is missed when a worker's last one is
older than two of its intervals: that is when who reads the tables takes it for dead. In the end every success that was
counted must stand in the tables, once.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, cast

from benchmarks import _report
from rota.tracking import Connections, Tracker
from rota.tracking.connections import opened
from rota.tracking.schema import install
from tests.support.postgres import server

if TYPE_CHECKING:
    from rota.tracking.connections import Connection

WORKERS, EVERY, CONNECTIONS = 1_000, 5.0, 4
LOOK_EVERY, CLOSE_WITHIN = 0.5, 60.0
MISSED = b"""
SELECT id::text FROM ai.vectorizer_worker_process
WHERE last_heartbeat < clock_timestamp() - expected_heartbeat_interval * 2
"""
BEATS = b"SELECT heartbeat_count FROM ai.vectorizer_worker_process ORDER BY id"
SUCCESSES = b"SELECT coalesce(sum(success_count), 0)::bigint FROM ai.vectorizer_worker_process"


def measure(url: str, workers: int, every: float, seconds: float) -> list[tuple[str, float, str, bool | None]]:
    """What each figure came to, what it should be, and whether it is."""
    with opened(url) as sql, Connections(url, most=CONNECTIONS, patience=CLOSE_WITHIN) as connections:
        install(sql)
        trackers = [Tracker(connections, "benchmark", every=every).start() for _ in range(workers)]
        while _one(sql, b"SELECT count(*) FROM ai.vectorizer_worker_process") < workers:
            time.sleep(LOOK_EVERY)
        first = _beats(sql)
        missed, counted = _beating(sql, trackers, seconds)
        beats = [after - before for before, after in zip(first, _beats(sql), strict=True)]
        unclosed = sum(not tracker.close(CLOSE_WITHIN) for tracker in trackers)
        lost = counted - _one(sql, SUCCESSES)
    return [
        ("beats of a worker, fewest", min(beats), "", None),
        ("beats of a worker, median", _report.median(beats), f"<= {seconds / every:g}", None),
        ("beats of a worker, most", max(beats), "", None),
        ("beats missed", missed, "0", not missed),
        ("successes counted", counted, "", None),
        ("successes lost, or counted twice", abs(lost), "0", not lost),
        ("trackers with something left to tell", unclosed, "0", not unclosed),
    ]


def _beating(sql: Connection, trackers: list[Tracker], seconds: float) -> tuple[int, int]:
    """So long each tracker counts a success now and then: how many beats were missed, and what was counted."""
    missed, counted, late = 0, 0, set[object]()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for tracker in trackers:
            tracker.success()
        counted += len(trackers)
        now = {id for (id,) in sql.execute(MISSED).fetchall()}
        missed, late = missed + len(now - late), now
        time.sleep(LOOK_EVERY)
    return missed, counted


def _beats(sql: Connection) -> list[int]:
    return [cast("int", beats) for (beats,) in sql.execute(BEATS).fetchall()]


def _one(sql: Connection, query: bytes) -> int:
    (found,) = sql.execute(query).fetchone() or (0,)
    return cast("int", found)


def main() -> int:
    parser = _report.arguments("A thousand trackers beat for a minute.")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long they beat")
    parser.add_argument("--workers", type=int, default=WORKERS, help="how many trackers")
    parser.add_argument("--every", type=float, default=EVERY, help="seconds between two beats of one")
    options = parser.parse_args()
    with server(durable=True) as found, found.database() as url:
        figures = measure(url, options.workers, options.every, options.minutes * 60)
    table: list[dict[str, _report.Cell]] = [
        {"what": name, "measured": value, "target": target, "met": met} for name, value, target, met in figures
    ]
    title = f"{options.workers:,} trackers for {options.minutes:g} min, a beat every {options.every:g} s"
    _report.show(title, table, options.json)
    return int(any(met is False for *_, met in figures))


if __name__ == "__main__":
    sys.exit(main())
