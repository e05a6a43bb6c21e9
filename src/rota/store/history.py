"""Old final jobs, runs, events and workers are forgotten, a batch at a time; what others still wait for is kept."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core.ids import run_id
from rota.core.record import Record
from rota.store import captures
from rota.store.again import again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.times import Duration, Instant
    from rota.store.rows import Row
    from rota.store.store import Store

BATCH = 500


class Pruned(Record):
    """How much was forgotten."""

    jobs: int
    events: int
    workers: int


class History:
    """The port for retention."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def prune(
        self, older: Duration | None = None, most: int | None = None, told: Callable[[int], None] | None = None
    ) -> Pruned:
        """Forget what ended longer ago than `older`, and per queue all but the newest `most` final jobs."""
        settings = self._store.settings
        before = self._store.now() - (settings.keep_for if older is None else older)
        count = self._forget("job.prunable", {"before": before}, None, told)
        for status in self._store.queues.list():
            surplus = sum(status.counts[state] for state in jobs.FINAL) - (settings.keep_jobs if most is None else most)
            if surplus > 0:
                count += self._forget("job.surplus", {"queue": status.queue.name}, surplus, told)
        return Pruned(count, self._forget_events(before), self._forget_workers(before))

    def _forget(
        self, statement: str, params: dict[str, object], most: int | None, told: Callable[[int], None] | None
    ) -> int:
        count, after = 0, 0
        while most is None or count < most:
            room = BATCH if most is None else min(BATCH, most - count)
            rows, runs = self._forget_batch(statement, {**params, "after": after, "most": room})
            captures.remove(self._store.database.runs, [run_id(token) for (token,) in runs])
            if not rows:
                break
            count, after = count + len(rows), rows[-1][0]
            if told:
                told(count)
        return count

    @again
    def _forget_batch(self, statement: str, params: dict[str, object]) -> tuple[list[Row], list[Row]]:
        """Forget some final jobs: those, and the tokens of their runs."""
        with self._store.write() as tx:
            rows = tx.execute(statement, **params)
            ids: list[Row] = [(id,) for id, _, _ in rows]
            runs = tx.many("job.forget_runs", ids)
            for forget in ("job.forget_dependencies", "job.forget"):
                tx.many(forget, ids)
            by_place: dict[tuple[str, str], list[int]] = {}
            for id, queue, status in rows:
                by_place.setdefault((queue, status), []).append(id)
            for (queue, status), gone in by_place.items():
                tx.forgot(queue, status, gone)
        return rows, runs

    def _forget_events(self, before: Instant) -> int:
        count = 0
        while True:
            with self._store.write() as tx:
                gone = len(tx.execute("event.prune", before=before, most=BATCH))
            count += gone
            if gone < BATCH:
                return count

    def _forget_workers(self, before: Instant) -> int:
        count = 0
        while True:
            with self._store.write() as tx:
                gone = tx.execute("worker.prune", before=before, most=BATCH)
                tx.many("worker.prune_certificates", gone)
            count += len(gone)
            if len(gone) < BATCH:
                return count
