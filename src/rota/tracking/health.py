"""What `rota tracking status` and `prune` read and remove."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from rota.core.record import Record
from rota.tracking.postgres import statement

if TYPE_CHECKING:
    from rota.core.times import Duration
    from rota.tracking.postgres import Connection


class DeadWorker(Record):
    """A worker that missed two of its beats."""

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
    latest_dead: tuple[DeadWorker, ...]
    vectorizers: tuple[Vectorizer, ...]


def read(connection: Connection, limit: int) -> Health:
    """How all is; of the dead workers the latest `limit`."""
    row = connection.execute(statement("health.workers")).fetchone()
    workers, dead = cast("tuple[int, int]", row)
    latest = connection.execute(statement("health.dead"), {"limit": limit}).fetchall()
    vectorizers = connection.execute(statement("health.vectorizers")).fetchall()
    (now,) = cast("tuple[datetime]", connection.execute(statement("health.now")).fetchone())
    return Health(now, workers, dead, tuple(map(_dead, latest)), tuple(map(_vectorizer, vectorizers)))


def prune(connection: Connection, older: Duration) -> int:
    """Forget dead workers that were silent for longer than that; how many."""
    return connection.execute(statement("health.prune"), {"older": timedelta(microseconds=older)}).rowcount


def _dead(row: tuple[Any, ...]) -> DeadWorker:
    return DeadWorker(*row)


def _vectorizer(row: tuple[Any, ...]) -> Vectorizer:
    return Vectorizer(*row)
