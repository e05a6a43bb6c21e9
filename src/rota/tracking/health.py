"""What `rota tracking status` and `prune` read and remove."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from rota.core.record import Record
from rota.core.times import SECOND, format_instant
from rota.tracking.postgres import statement

if TYPE_CHECKING:
    from rota.core.times import Duration
    from rota.tracking.postgres import Connection


class Worker(Record):
    """A worker's row; it is dead when it missed two of its beats."""

    id: str
    version: str
    started: datetime
    expected_heartbeat_interval: timedelta
    last_heartbeat: datetime
    heartbeat_count: int
    success_count: int
    error_count: int
    last_error_at: datetime | None
    last_error_message: str | None


class Vectorizer(Record):
    """How one vectorizer is doing, whichever workers did it."""

    id: int
    source_table: str
    success_count: int
    error_count: int
    last_success_at: datetime | None
    last_error_at: datetime | None
    last_error_message: str | None
    updated_at: datetime | None

    @property
    def health(self) -> float | None:
        """The share of successes; None where nothing was done yet."""
        total = self.success_count + self.error_count
        return self.success_count / total if total else None


class Health(Record):
    """Everything that `status` shows, as of one moment."""

    now: datetime
    workers: int
    dead: int
    latest_live: tuple[Worker, ...]
    latest_dead: tuple[Worker, ...]
    vectorizers: tuple[Vectorizer, ...]


def read(connection: Connection, limit: int) -> Health:
    """How all is; of the living and of the dead workers the latest `limit` each."""
    row = connection.execute(statement("health.workers")).fetchone()
    workers, dead = cast("tuple[int, int]", row)
    live, latest = (
        connection.execute(statement("health.list"), {"limit": limit, "dead": is_dead}).fetchall()
        for is_dead in (False, True)
    )
    vectorizers = connection.execute(statement("health.vectorizers")).fetchall()
    (now,) = cast("tuple[datetime]", connection.execute(statement("health.now")).fetchone())
    return Health(
        now, workers, dead, tuple(map(_worker, live)), tuple(map(_worker, latest)), tuple(map(_vectorizer, vectorizers))
    )


def prune(connection: Connection, older: Duration) -> int:
    """Forget dead workers that were silent for longer than that; how many."""
    return connection.execute(statement("health.prune"), {"older": timedelta(microseconds=older)}).rowcount


def document(found: Health) -> dict[str, object]:
    """What programs get."""
    return {
        "workers": found.workers,
        "live": found.workers - found.dead,
        "dead": found.dead,
        "live_workers": [_told_worker(each) for each in found.latest_live],
        "dead_workers": [_told_worker(each) for each in found.latest_dead],
        "vectorizers": [_told_vectorizer(each) for each in found.vectorizers],
    }


def _told_worker(each: Worker) -> dict[str, object]:
    return {
        "id": each.id,
        "version": each.version,
        "started": _moment(each.started),
        "expected_heartbeat_interval": each.expected_heartbeat_interval.total_seconds(),
        "last_heartbeat": _moment(each.last_heartbeat),
        "heartbeat_count": each.heartbeat_count,
        "success_count": each.success_count,
        "error_count": each.error_count,
        "last_error_at": _moment(each.last_error_at),
        "last_error_message": each.last_error_message,
    }


def _told_vectorizer(each: Vectorizer) -> dict[str, object]:
    return {
        "id": each.id,
        "source_table": each.source_table,
        "success_count": each.success_count,
        "error_count": each.error_count,
        "health": each.health,
        "last_success_at": _moment(each.last_success_at),
        "last_error_at": _moment(each.last_error_at),
        "last_error_message": each.last_error_message,
        "updated_at": _moment(each.updated_at),
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else format_instant(round(moment.timestamp() * SECOND))


def _worker(row: tuple[Any, ...]) -> Worker:
    return Worker(*row)


def _vectorizer(row: tuple[Any, ...]) -> Vectorizer:
    return Vectorizer(*row)
