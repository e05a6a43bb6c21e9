"""Row locks, for a database where several transactions write at once (decision 14). An exclusive one needs none.

Everyone takes rows in one order: the orchestrator or the worker that guards a claim, then queues with limits by name,
then jobs by id. Who fills a source takes its queue, the source, then its filler. A claim changes only under its guard:
the orchestrator's row for a watched worker's claim, else the worker's; who ends a worker, or makes it an orphan, holds
both. Only a handler that settles in its own transaction does so without: its job's row alone. Tending never waits: it
takes what nobody has. Where an order cannot be known beforehand, the database breaks the tie and the change is made
again (`retry_conflicts`).
"""

from __future__ import annotations

from rota.core import job as jobs
from rota.core.errors import Contended
from rota.store.engine.rows import to_job, to_queue, to_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.job import Job
    from rota.core.queue import Queue
    from rota.core.times import Instant
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.jobs.dependencies import WaitingJob


def orchestrator(tx: Transaction, id: int) -> None:
    if not tx.exclusive:
        tx.execute("locks.orchestrator", id=id)


def worker(tx: Transaction, id: str) -> None:
    """Lock the guard of a worker's claims: its orchestrator, and itself, because it may be an orphan by now."""
    if tx.exclusive:
        return
    row = tx.one("worker.get", id=id)
    watcher = to_worker(row).orchestrator if row else None
    if watcher is not None:
        orchestrator(tx, watcher)
    tx.execute("locks.worker", id=id)


def queue(tx: Transaction, name: str) -> Queue | None:
    """Return a queue with its limits, locked if it has any. Limits change in exclusive transactions only."""
    if tx.exclusive or name in tx.held_queues:
        row = tx.one("queue.lock", queue=name)
        return to_queue(row) if row else None
    known = tx.unlimited.get(name)
    if known is not None:
        return known
    row = tx.one("queue.get", queue=name)
    found = to_queue(row) if row else None
    if found is None:
        return None
    if not found.has_limits:
        tx.unlimited[name] = found
        return found
    tx.held_queues.add(name)
    return queue(tx, name)


def queues(tx: Transaction, names: Iterable[str] | None, of_jobs: Sequence[int] = ()) -> list[Row] | None:
    """Lock these queues (None: all) and those of these jobs, as far as they have limits.

    Returns:
        The rows of all queues, unless they have to be read again.
    """
    if tx.exclusive:
        return None
    rows = tx.execute("queue.all")
    found = [to_queue(row) for row in rows]
    tx.unlimited.update({each.name: each for each in found if not each.has_limits})
    limited = {each.name for each in found if each.has_limits}
    if limited and names is not None:
        limited &= {*names, *(name for (name,) in tx.many("locks.queue_of", [(id,) for id in of_jobs]))}
    for name in sorted(limited):
        queue(tx, name)
    return None if limited else rows


def job(tx: Transaction, id: int, guarded: bool = True) -> Job | None:
    """Lock a job to be changed, with its queue and, if `guarded`, the guard of its claim."""
    if not tx.exclusive:
        row = tx.one("job.get", id=id)
        if row is None:
            return None
        seen = to_job(row)
        if guarded and seen.status == jobs.ACTIVE:
            _guard(tx, seen)
        queue(tx, seen.queue)
    row = tx.one("job.lock", id=id)
    found = to_job(row) if row else None
    if guarded and not tx.exclusive and found and found.status == jobs.ACTIVE and _holder(found) != _holder(seen):
        raise Contended(f"job {id} was claimed meanwhile")
    return found


def queue_of_job(tx: Transaction, id: int) -> None:
    """Lock the queue of a job if it has limits."""
    if not tx.exclusive:
        for (name,) in tx.execute("locks.queue_of", id=id):
            queue(tx, name)


def all_jobs(tx: Transaction, ids: Iterable[int]) -> None:
    if not tx.exclusive and not tx.borrowed:
        tx.many("locks.jobs", [(id,) for id in sorted(set(ids))])


def dependents(tx: Transaction, needed: int, after: int, most: int) -> None:
    """Lock the jobs that wait for one, so that of two settled at once the later transaction sees the earlier."""
    if tx.exclusive:
        return
    for (name,) in sorted(tx.execute("locks.queues_of_dependents", needs=needed, after=after, most=most)):
        queue(tx, name)
    tx.execute("locks.dependents", needs=needed, after=after, most=most)


def free_queues(tx: Transaction, names: Iterable[str]) -> set[str]:
    """Return those of these queues that have no limits or that no other transaction has locked."""
    return {name for name in sorted(set(names)) if tx.exclusive or _is_free(tx, name)}


def free_scheduled(tx: Transaction, due: Sequence[WaitingJob]) -> list[WaitingJob]:
    """Lock those of these scheduled jobs that no other transaction has locked, without waiting, and return them."""
    if tx.exclusive or not due:
        return list(due)
    names = free_queues(tx, (job.queue for job in due))
    free = {id for (id,) in tx.many("locks.free_scheduled", [(job.id,) for job in due if job.queue in names])}
    return [job for job in due if job.id in free]


def free_claims(tx: Transaction, claimed: Sequence[Job]) -> list[Job]:
    """Lock those of these manual claims that no other transaction has locked, and return their jobs as they are now."""
    if tx.exclusive or not claimed:
        return list(claimed)
    workers = {id for (id,) in tx.many("locks.free_worker", [(each.worker_id,) for each in claimed])}
    names = free_queues(tx, (each.queue for each in claimed))
    free = [each.id for each in claimed if each.worker_id in workers and each.queue in names]
    found = [to_job(row) for row in tx.many("locks.jobs", [(id,) for id in sorted(free)])]
    return [each for each in found if each.status == jobs.ACTIVE and each.worker_id in workers]


def lapsed_orchestrator(tx: Transaction, id: int, lease_expires_at: Instant) -> bool:
    """Lock an orchestrator whose lease ran out; return false if another transaction has it or it has renewed."""
    found = tx.exclusive or tx.execute("locks.lapsed_orchestrator", id=id, lease_expires_at=lease_expires_at)
    return bool(found)


def _guard(tx: Transaction, held: Job) -> None:
    if held.orchestrator is not None:
        orchestrator(tx, held.orchestrator)
    else:
        tx.execute("locks.worker", id=held.worker_id)


def _holder(job: Job) -> tuple[int | None, str | None] | None:
    """Return the holder of an active job; other jobs keep the name of their last holder."""
    return (job.orchestrator, job.worker_id) if job.status == jobs.ACTIVE else None


def _is_free(tx: Transaction, name: str) -> bool:
    if name in tx.held_queues or name in tx.unlimited:
        return True
    row = tx.one("queue.get", queue=name)
    if row is None or not to_queue(row).has_limits:
        return True
    if not tx.execute("locks.free_queue", queue=name):
        return False
    tx.held_queues.add(name)
    return True
