"""Delete old final jobs, runs, events and workers, a batch at a time; keep what others still wait for."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core.errors import StoreFull
from rota.core.ids import run_id
from rota.core.record import Record
from rota.store.engine.rows import scalar
from rota.store.engine.transaction import retry_conflicts
from rota.store.jobs import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rota.core.times import Duration, Instant
    from rota.store.engine.rows import Row
    from rota.store.store import Store

BATCH = 500
FEW = 8  # jobs whose removal fits in the reserve of a full disk


class Pruned(Record):
    """How much was deleted."""

    jobs: int
    events: int
    workers: int


class Stride:
    """How many rows the next step looks at; the caller may change it between steps."""

    def __init__(self, size: int = BATCH) -> None:
        self.size = size


class History:
    """The port for retention."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def prune(
        self,
        older: Duration | None = None,
        most: int | None = None,
        told: Callable[[int], None] | None = None,
        *,
        plan: bool = False,
    ) -> Pruned:
        """Delete what ended longer ago than `older`, and per queue all but the newest `most` final jobs.

        Without them as the settings say. With `plan` only count what would be forgotten. On a full disk that has a
        reserve for it, this makes room.
        """
        try:
            return self._through(self.steps(older, most, plan=plan), told)
        except StoreFull:
            with self._store.database.last_room():
                return self._through(self.steps(older, most, Stride(FEW)), told)

    def steps(
        self,
        older: Duration | None = None,
        most: int | None = None,
        stride: Stride | None = None,
        *,
        plan: bool = False,
    ) -> Iterator[Pruned]:
        """Prune step by step, each at most one short transaction, and yield what has been deleted so far."""
        settings, stride = self._store.settings, stride or Stride()
        now = self._store.now()
        before = now - (settings.keep_for if older is None else older)
        limits = {"before": before, "failed_before": now - (settings.keep_failed if older is None else older)}
        gone = Pruned(0, 0, 0)
        by_queue: dict[str, int] = {}
        for rows in self._walk("job.prunable", limits, None, stride, plan):
            for _, queue, _ in rows if plan else ():
                by_queue[queue] = by_queue.get(queue, 0) + 1
            yield (gone := gone.replace(jobs=gone.jobs + len(rows)))
        for queue, counts in self._store.queues.counts().items():
            surplus = sum(counts[state] for state in jobs.FINAL) - (settings.keep_jobs if most is None else most)
            surplus -= by_queue.get(queue, 0)
            for rows in self._walk("job.surplus", {"queue": queue}, surplus, stride, plan):
                yield (gone := gone.replace(jobs=gone.jobs + len(rows)))
        if plan:
            events = scalar(self._store.database.execute("event.count_before", {"before": before}))
            workers = scalar(self._store.database.execute("worker.count_gone", {"before": before}))
            yield gone.replace(events=events, workers=workers)
            return
        while count := self._forget_events(before, stride.size):
            yield (gone := gone.replace(events=gone.events + count))
        while count := self._forget_workers(before, stride.size):
            yield (gone := gone.replace(workers=gone.workers + count))
        while self._store.database.give_back(stride.size):
            yield gone

    def _through(self, steps: Iterator[Pruned], told: Callable[[int], None] | None) -> Pruned:
        gone = Pruned(0, 0, 0)
        for now in steps:
            if told and now.jobs > gone.jobs:
                told(now.jobs)
            gone = now
        return gone

    def _walk(
        self, statement: str, params: Mapping[str, object], most: int | None, stride: Stride, plan: bool
    ) -> Iterator[list[Row]]:
        """Yield the jobs that each range of the table loses, or with `plan` would lose."""
        database = self._store.database
        after = 0
        while most is None or most > 0:
            size = stride.size
            upto = scalar(database.execute("job.next_stretch", {"after": after, "most": size}))
            if upto is None:
                return
            words = {**params, "after": after, "upto": upto, "most": size if most is None else min(size, most)}
            rows: list[Row] = []
            # Where only one may write, the write lock is taken only for what there is to do.
            if plan or not database.locks_rows:
                rows = database.execute(statement, words)
            if not plan and (rows or database.locks_rows):
                rows, runs = self._forget_batch(statement, words)
                output.remove(database.runs, [run_id(token) for (token,) in runs])
            after, most = upto, None if most is None else most - len(rows)
            yield rows

    @retry_conflicts
    def _forget_batch(self, statement: str, params: dict[str, object]) -> tuple[list[Row], list[Row]]:
        """Delete some final jobs; return them and the tokens of their runs."""
        with self._store.write() as tx:
            rows = tx.execute(statement, **params)
            if not tx.exclusive:
                # The statement looked before it locked: a job may have been added since that waits for one of these.
                awaited = {id for (id,) in tx.many("job.awaited", [(id,) for id, _, _ in rows])}
                rows = [(id, queue, status) for id, queue, status in rows if id not in awaited]
            ids: list[Row] = [(id,) for id, _, _ in rows]
            runs = tx.many("job.forget_runs", ids)
            for forget in ("job.forget_dependencies", "job.forget"):
                tx.many(forget, ids)
            by_place: dict[tuple[str, str], list[int]] = {}
            for id, queue, status in rows:
                by_place.setdefault((queue, status), []).append(id)
            for (queue, status), gone in by_place.items():
                tx.pruned(queue, status, gone)
        return rows, runs

    def _forget_events(self, before: Instant, most: int) -> int:
        with self._store.write() as tx:
            return len(tx.execute("event.prune", before=before, most=most))

    def _forget_workers(self, before: Instant, most: int) -> int:
        with self._store.write() as tx:
            gone = tx.execute("worker.prune", before=before, most=most)
            tx.many("worker.prune_certificates", gone)
        return len(gone)
