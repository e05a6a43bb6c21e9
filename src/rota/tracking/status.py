"""The health of tracked workers: what `rota tracking status` shows and `rota tracking prune` deletes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from rota.core.record import Record
from rota.core.times import SECOND, format_instant
from rota.tracking.connections import statement

if TYPE_CHECKING:
    from rota.core.times import Duration
    from rota.tracking.connections import Connection


class Worker(Record):
    """A row of the worker table; a worker is dead when it missed two heartbeats."""

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
    """The progress of one vectorizer, by all workers together."""

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
        """The share of successes; None if nothing was done yet."""
        total = self.success_count + self.error_count
        return self.success_count / total if total else None


class Health(Record):
    """Everything that `rota tracking status` shows, as of one instant."""

    now: datetime
    workers: int
    dead: int
    latest_live: tuple[Worker, ...]
    latest_dead: tuple[Worker, ...]
    vectorizers: tuple[Vectorizer, ...]


def read(connection: Connection, limit: int) -> Health:
    """Read the health, with at most `limit` of the live and of the dead workers, latest first."""
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
    """Delete dead workers whose last heartbeat is older than `older`; return how many."""
    return connection.execute(statement("health.prune"), {"older": timedelta(microseconds=older)}).rowcount


def document(health: Health) -> dict[str, object]:
    """Return the JSON document of `rota tracking status --json`."""
    return {
        "workers": health.workers,
        "live": health.workers - health.dead,
        "dead": health.dead,
        "live_workers": [_worker_document(worker) for worker in health.latest_live],
        "dead_workers": [_worker_document(worker) for worker in health.latest_dead],
        "vectorizers": [_vectorizer_document(vectorizer) for vectorizer in health.vectorizers],
    }


def _worker_document(worker: Worker) -> dict[str, object]:
    return {
        "id": worker.id,
        "version": worker.version,
        "started": _moment(worker.started),
        "expected_heartbeat_interval": worker.expected_heartbeat_interval.total_seconds(),
        "last_heartbeat": _moment(worker.last_heartbeat),
        "heartbeat_count": worker.heartbeat_count,
        "success_count": worker.success_count,
        "error_count": worker.error_count,
        "last_error_at": _moment(worker.last_error_at),
        "last_error_message": worker.last_error_message,
    }


def _vectorizer_document(vectorizer: Vectorizer) -> dict[str, object]:
    return {
        "id": vectorizer.id,
        "source_table": vectorizer.source_table,
        "success_count": vectorizer.success_count,
        "error_count": vectorizer.error_count,
        "health": vectorizer.health,
        "last_success_at": _moment(vectorizer.last_success_at),
        "last_error_at": _moment(vectorizer.last_error_at),
        "last_error_message": vectorizer.last_error_message,
        "updated_at": _moment(vectorizer.updated_at),
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else format_instant(round(moment.timestamp() * SECOND))


def _worker(row: tuple[Any, ...]) -> Worker:
    return Worker(*row)


def _vectorizer(row: tuple[Any, ...]) -> Vectorizer:
    return Vectorizer(*row)
