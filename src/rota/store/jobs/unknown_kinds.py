"""Jobs that are `blocked (kind)`: a worker that claimed them does not know their kind.

They are not in the index that claims read. Every orchestrator unblocks them, whenever one of its workers comes up and
whenever it polls, if a live worker that serves their queue declares their kind; so nothing is lost if a worker that
does not know it sets one aside at the same moment. If no such worker comes in time, they fail.
"""

from __future__ import annotations

import json

from rota.core import job as jobs
from rota.core.frames.messages import Kinds, kinds
from rota.core.queue import DEFAULT
from rota.core.record import Record
from rota.core.times import MINUTE, format_duration, format_instant
from rota.store.claims import settle
from rota.store.engine import locks
from rota.store.engine.rows import to_job
from rota.store.engine.transaction import retry_conflicts
from rota.store.jobs import dependencies
from rota.store.jobs.dependencies import WaitingJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.job import Job
    from rota.core.times import Instant
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

    Execute = Callable[[str, dict[str, object]], list[Row]]

FREED_AT_ONCE = 1000
MOST_CHUNKS, MOST_KINDS = 10, 256  # of one look: the next goes on, while workers are handed what is free already
COUNTED = 10_000


class Waiting(Record):
    """How many jobs of a kind wait in a queue for a worker that knows it, and when the first fails."""

    queue: str
    kind: str
    count: int
    until: Instant

    @property
    def text(self) -> str:
        """The count in words, without the queue."""
        many = f"{self.count:,} jobs of kind {self.kind} wait" if self.count > 1 else f"1 job of kind {self.kind} waits"
        return f"{many} for a worker that knows it"


def waiting(store: Store, most: int) -> list[Waiting]:
    """Return what waits, by queue and kind, counted among the oldest jobs only."""
    return [Waiting(*row) for row in store.database.execute("job.count_unknown", {"window": COUNTED, "most": most})]


def known(execute: Execute, queue: str) -> Kinds | None:
    """Return the kinds that the live workers of a queue declare; None if it has no worker."""
    pools = {name for (name,) in execute("slot.served", {})}
    pool = queue if queue in pools else DEFAULT
    told = [kinds(json.loads(text)) for name, text in execute("worker.kinds", {}) if name == pool]
    if not told:
        return None
    return Kinds(frozenset().union(*(each.names for each in told)), any(each.every for each in told))


def free(store: Store) -> None:
    """Unblock jobs whose kind a live worker of their queue declares by now, a bounded number of them."""
    execute, chunks = store.database.execute, MOST_CHUNKS
    for _ in range(MOST_KINDS):
        queue, kind = store.unknown_from
        found = execute("job.next_unknown", {"queue": queue, "kind": kind})
        if not found:
            store.unknown_from = ("", "")
            return
        queue, kind = min(found)
        able = known(execute, queue)
        if able is not None and kind in able:
            while _free_some(store, queue, kind) == FREED_AT_ONCE:
                chunks -= 1
                if not chunks:
                    return
        store.unknown_from = (queue, kind)


def give_up(store: Store, tx: Transaction, overdue: list[Job]) -> None:
    """Fail jobs that have waited too long, unless their queue has no worker at all."""
    names = locks.free_queues(tx, (job.queue for job in overdue))
    able = {name: known(_within(tx), name) for name in names}
    for job in _still(tx, [job.id for job in overdue if job.queue in names]):
        declared = able[job.queue]
        if declared is None:
            tx.execute("job.wait_on", id=job.id, until=tx.now + MINUTE)
        elif job.kind in declared:
            _let_go(tx, [WaitingJob(job.id, job.queue, job.limit_key, None, 0, True)])
        else:
            waited = format_duration(store.settings.unknown_kind_timeout)
            error = f"no worker knew its kind, {job.kind!r}, within {waited}"
            settle.end_unheld(tx, jobs.FAIL, job, jobs.FAILED, None, error)


def why(store: Store, job: Job) -> str:
    """Explain what a job of an unknown kind waits for, and until when."""
    able = known(store.database.execute, job.queue)
    ((until,),) = store.database.execute("job.unknown_until", {"id": job.id})
    if able is None:
        there = f"queue {job.queue} has no worker now"
    else:
        there = f"those of queue {job.queue} know {', '.join(sorted(able.names)) or 'none'}"
    end = f"it fails after {format_instant(until or 0)[:19]}Z unless one comes"
    return f"Job {job.id} waits for a worker that knows its kind, {job.kind!r}: {there}; {end}."


@retry_conflicts
def _free_some(store: Store, queue: str, kind: str) -> int:
    with store.write() as tx:
        locks.queue(tx, queue)
        waiting = list(map(WaitingJob._make, tx.execute("job.unknown", queue=queue, kind=kind, most=FREED_AT_ONCE)))
        still = {job.id for job in _still(tx, [job.id for job in waiting])}
        _let_go(tx, [job for job in waiting if job.id in still])
        return len(waiting)


def _let_go(tx: Transaction, waiting: list[WaitingJob]) -> None:
    """Make jobs ready, or let them wait for whatever else they must wait for."""
    free = [
        job
        for job in waiting
        if not (job.waits and dependencies.waits_again(tx, jobs.UNBLOCK, job.id, job.queue, jobs.BLOCKED))
    ]
    dependencies.unblock(tx, jobs.UNBLOCK, free)


def _still(tx: Transaction, ids: list[int]) -> list[Job]:
    """Lock those of these jobs that still wait for a worker that knows their kind, and return them."""
    found = [to_job(row) for row in tx.many("locks.jobs", [(id,) for id in sorted(ids)])] if ids else []
    return [job for job in found if (job.status, job.blocked_on) == (jobs.BLOCKED, jobs.UNKNOWN_KIND)]


def _within(tx: Transaction) -> Execute:
    return lambda statement, params: tx.execute(statement, **params)
