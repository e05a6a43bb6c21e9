"""Counts what a crew's workers did for the tracking tables, once the store has committed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core import job as jobs
from rota.core.claim import Done, Failed
from rota.core.record import Record
from rota.core.source import KIND, vectorizers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rota.core.claim import Outcome
    from rota.core.frames.assignment import Assignment
    from rota.orchestrator.worker_process import WorkerProcess
    from rota.process.log import Say
    from rota.settings import Settings
    from rota.tracking.tracker import WorkerRows

COUNTED = (jobs.FINISH, jobs.FAIL, jobs.DIE)


class Ended(Record):
    """How a job ended for its worker: `error` None is a success. `source` is where it came from."""

    worker: str
    error: str | None
    source: str | None


class Tracked:
    """Keeps what workers report until it is settled, then counts it, once. Without `worker_rows` it does nothing."""

    def __init__(self, worker_rows: WorkerRows | None = None) -> None:
        self._worker_rows = worker_rows
        self._reported: dict[int, Ended] = {}
        self._vectorizers: dict[str, int | str] = {}

    def learn(self, hello: dict[str, Any]) -> None:
        """Learn from a worker's hello which sources are vectorizers."""
        self._vectorizers |= vectorizers(hello)

    def came(self, worker: str) -> None:
        if self._worker_rows is not None:
            self._worker_rows.started(worker)

    def reported(self, worker: str, held: Assignment, outcome: Outcome) -> None:
        """A job ended; it counts once it is settled. What is given back or put off is neither success nor error."""
        if self._worker_rows is not None and isinstance(outcome, Done | Failed):
            error = outcome.error if isinstance(outcome, Failed) else None
            self._reported[held.token] = Ended(worker, error, source_of(held))

    def settled(self, tokens: Iterable[int], refused: Collection[int]) -> None:
        """The store took these reports, but for those that it refused. One that comes twice counts once."""
        if self._worker_rows is None or not self._reported:
            return
        well: dict[str, int] = {}
        for token in tokens:
            ended = self._reported.pop(token, None)
            if ended is None or token in refused:
                continue
            if ended.error is None and ended.source is None:
                well[ended.worker] = well.get(ended.worker, 0) + 1
            else:
                self._count(ended)
        for worker, successes in well.items():
            self._worker_rows.count(worker, None, times=successes)

    def dying(self, child: WorkerProcess) -> list[int]:
        """Note the running jobs of a worker that died; return the claims whose ends show what became of its jobs."""
        if self._worker_rows is None:
            return []
        for held in child.running:
            self._reported.setdefault(held.token, Ended(child.worker_id, None, source_of(held)))
        return [token for token, ended in self._reported.items() if ended.worker == child.worker_id]

    def left(self, worker: str, ends: Mapping[int, tuple[str, str | None]], crowded: bool) -> None:
        """Count the ends of a worker's jobs, now that its death is recorded. If it ran several, none is to blame."""
        if self._worker_rows is None:
            return
        for token, (verb, error) in ends.items():
            ended = self._reported.pop(token, None)
            if ended is not None and verb in COUNTED and not (crowded and verb == jobs.DIE):
                self._count(ended.replace(error=None if verb == jobs.FINISH else error or verb))
        self._reported = {token: ended for token, ended in self._reported.items() if ended.worker != worker}
        self._worker_rows.ended(worker)

    def _count(self, ended: Ended) -> None:
        assert self._worker_rows is not None
        self._worker_rows.count(ended.worker, ended.error, self._vectorizers.get(ended.source or ""))


def source_of(held: Assignment) -> str | None:
    """The source that a job came from; the job that looks for work in it is no progress of its own."""
    return None if held.kind.startswith(KIND) else held.source


def open_worker_rows(settings: Settings, say: Say) -> WorkerRows | None:
    """Open the tracking tables that the settings name; complaints go to the orchestrator's log."""
    if settings.tracking_url is None:
        return None
    from rota.tracking.tracker import WorkerRows  # psycopg takes long to import, and most crews need none

    is_asked = settings.tracking is not None  # else it is the database itself, where few have the tables
    return WorkerRows(settings.tracking_url, settings.heartbeat_interval, lambda text: say(text, "tracking"), is_asked)
