"""The end of a claim on a source's job: what it means for the source (decision 16). Ordinary jobs never come here."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core import source as sources
from rota.core.claim import Done, Failed, Released, Snoozed
from rota.store.engine.rows import scalar, to_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from rota.core.claim import End, Ending
    from rota.core.job import Job
    from rota.store.claims.settle import HeldJob
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction


def finish(tx: Transaction, finished: Sequence[HeldJob]) -> None:
    """Delete jobs of sources that succeeded, with their runs: only the counters and an event remain."""
    ids: list[Row] = [(job.id,) for job in finished]
    tx.many("job.forget_runs", ids)
    tx.many("job.forget", ids)
    by_queue: dict[tuple[str, str], list[int]] = {}
    for job in finished:
        by_queue.setdefault((job.queue, job.source), []).append(job.id)
    for (queue, source), gone in by_queue.items():
        tx.moved(jobs.FINISH, queue, jobs.ACTIVE, jobs.DONE, gone, source=source)
        tx.pruned(queue, jobs.DONE, gone)
    count(tx, finished)


def keep(tx: Transaction, finished: Sequence[HeldJob]) -> None:
    """Keep succeeded jobs of sources that others wait for as ordinary ones, so that their keys may come again."""
    tx.many("source.let_go", [(job.id,) for job in finished])
    count(tx, finished)


def count(tx: Transaction, finished: Sequence[Any]) -> None:
    """Count successes per source, and remember the keys."""
    tx.many("source.remember", [(job.source, sources.key_hash(job.key), tx.now, job.token) for job in finished])
    workers: dict[str, list[str]] = {}
    for job in finished:
        workers.setdefault(job.source, []).append(job.worker_id)
    for source, succeeded in sorted(workers.items()):
        # In one order, so that concurrent transactions do not wait for each other in a circle.
        tx.execute("source.succeeded", name=source, count=len(succeeded), now=tx.now, worker=succeeded[-1])


def ended(tx: Transaction, job: Job, decided: End, status: str, failed: bool, error: str | None) -> None:
    """Note how a claim on a source's job, or on its filler, ended."""
    assert job.source is not None
    if sources.is_internal(job.queue):
        if decided.verb == jobs.SNOOZE:
            top_up(tx, [job.source])
        elif failed:
            tx.execute("source.fill_failed", name=job.source, error=error)
            tx.changed("source", "fill_failed", job.source, error=error and error[:200])
    elif failed:
        tx.execute("source.failed", name=job.source, now=tx.now, error=error, worker=job.worker_id)
    elif status == jobs.DONE:
        _remove(tx, job)
        count(tx, [job])


def forced(tx: Transaction, job: Job) -> None:
    """Remove a source's job that a person settled as done while nobody held it; its key is not remembered."""
    if job.source is not None and not sources.is_internal(job.queue):
        _remove(tx, job)


def _remove(tx: Transaction, job: Job) -> None:
    """Delete a done job, unless others wait for it."""
    if job.dependents:
        tx.many("source.let_go", [(job.id,)])
        return
    tx.many("job.forget_runs", [(job.id,)])
    tx.many("job.forget", [(job.id,)])
    tx.pruned(job.queue, jobs.DONE, [job.id])


def as_pass(tx: Transaction, job: Job, ending: Ending) -> Ending:
    """Decide how the claim of a filler ends: it is never done and never gives up, it comes again."""
    if isinstance(ending, Done):
        row = tx.one("source.get", name=job.source)
        return Snoozed(to_source(row).every if row else sources.LONGEST_EVERY)
    if isinstance(ending, Released) and ending.reason == jobs.UNKNOWN_KIND:
        # The worker's app does not have this source.
        return Failed(ending.note or "no worker that had it knows this source")
    return Failed(ending.error, reason=ending.reason) if isinstance(ending, Failed) else ending


def top_up(tx: Transaction, names: Iterable[str]) -> None:
    """Wake the fillers of sources whose ready jobs are below `low`, if their last pass left something."""
    for name in names:
        row = tx.one("source.get", name=name)
        if row is None:
            continue
        source = to_source(row)
        if not source.more or scalar(tx.execute("source.count_ready", source=name, most=source.low)) >= source.low:
            continue
        if tx.execute("source.wake_filler", id=source.filler):
            queue = sources.internal_queue(source.queue)
            tx.moved(jobs.DUE, queue, jobs.SCHEDULED, jobs.READY, [source.filler])


def is_settled(tx: Transaction, token: int) -> bool:
    """Return whether a source's job that is gone by now was finished with this token."""
    return bool(tx.execute("source.settled_by", token=token))


def is_gone(tx: Transaction, job: int, token: int) -> bool:
    """Return whether this job is gone because this token finished it."""
    return tx.one("job.get", id=job) is None and is_settled(tx, token)
