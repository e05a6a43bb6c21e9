"""How claims end: one by one for any reason, or many at once when they are done."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core import queue as queues
from rota.core.claim import Done, Returned, end
from rota.core.jsontext import compact
from rota.core.retry import Backoff
from rota.core.source import is_internal
from rota.store import flow, hold, sourced
from rota.store.rows import by_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.claim import Ending
    from rota.core.job import Job
    from rota.store.rows import Row
    from rota.store.transaction import Transaction

LONGEST_ERROR = 16_384


def end_claim(tx: Transaction, job: Job, ending: Ending, backoff: Backoff, chance: float) -> bool:
    """End this job's claim as decided; false when the claim was no longer there, and then nothing changed."""
    internal = is_internal(job.queue)
    decided = end(job, sourced.as_pass(tx, job, ending) if internal else ending, backoff, chance)
    due_at = tx.now + decided.delay if decided.delay or decided.verb == jobs.SNOOZE else None
    status, blocked_on = (decided.status, None) if decided.status else flow.resting(tx, job, due_at)
    error = decided.error[:LONGEST_ERROR] if decided.error else None
    if not tx.execute(
        "claim.end",
        id=job.id,
        token=job.token,
        status=status,
        blocked_on=blocked_on,
        due_at=due_at,
        spent=decided.spent,
        died=decided.died,
        lapsed=decided.lapsed,
        result=decided.result,
        error=error,
        note=decided.note,
        finished_at=tx.now if status in jobs.FINAL else None,
        alone=job.alone if decided.alone is None else int(decided.alone),
    ):
        return False
    if decided.leaves_run and not internal:
        attempt, ran = job.attempts + decided.spent, (job.token, job.id, job.worker_id)
        told = (decided.verb, decided.reason, error, decided.note, job.renewed_count)
        tx.many("claim.record", [(*ran, attempt, job.generation, job.claimed_at, tx.now, *told)])
        if job.transcript_path is not None or job.stderr_path is not None:
            paths = {"transcript_path": job.transcript_path, "stderr_path": job.stderr_path}
            tx.execute("claim.record_capture", token=job.token, **paths)
    facts = {"worker": job.worker_id, "token": job.token, "reason": decided.reason, "error": error and error[:200]}
    told_facts = {name: value for name, value in facts.items() if value is not None}
    tx.moved(decided.verb, job.queue, jobs.ACTIVE, status, [job.id], **told_facts)
    succeeded, failed = (
        int(status == jobs.DONE),
        int(decided.verb in (jobs.FAIL, jobs.EXPIRE, jobs.DIE) and decided.spent),
    )
    if not tx.lent:
        tx.execute("worker.settled", id=job.worker_id, succeeded=succeeded, failed=failed, error=error, now=tx.now)
    flow.left(tx, job.queue, job.limit_key, jobs.ACTIVE, status)
    if status in jobs.FINAL and job.dependents:
        flow.ripple(tx, job.id)
    if (succeeded or decided.verb == jobs.FAIL) and not internal:
        mind_breaker(tx, job.queue, failed, error)
    if job.source is not None:
        sourced.ended(tx, job, decided, status, bool(failed), error)
    return True


def finish(tx: Transaction, done: Sequence[tuple[str | None, int, int]]) -> tuple[set[int], dict[str, int]]:
    """Settle claims as done, each `(result, job id, token)`: the tokens that still held, and how many per worker."""
    if not done:
        return set(), {}
    results = {(id, token): result for result, id, token in done}
    rows = tx.execute("claim.holding", ids=compact([id for id, _ in results]))
    rows = [row for row in rows if (row[0], row[1]) in results]
    held = {row[1] for row in rows}
    workers: dict[str, int] = {}
    if any(row[6] is not None for row in rows):
        rows = _finish_sourced(tx, rows, workers)
    ended = {row[0]: results[row[0], row[1]] for row in rows}
    if ended:
        told = {"now": tx.now, "ids": compact(list(ended))}, {"now": tx.now, "results": by_id(ended)}
        both = tuple(zip(("claim.record_done", "claim.finish"), told, strict=True))
        for statement, params in both:
            tx.foresee(statement, **params)
        for statement, params in both:
            tx.execute(statement, **params)
    ids: dict[str, list[int]] = {}
    for id, _, queue, worker, *_ in rows:
        ids.setdefault(queue, []).append(id)
        workers[worker] = workers.get(worker, 0) + 1
    for queue, finished in ids.items():
        tx.moved(jobs.FINISH, queue, jobs.ACTIVE, jobs.DONE, finished)
        mind_breaker(tx, queue, 0, None)
    for id, _, queue, _, dependents, limit_key, *_ in rows:
        flow.left(tx, queue, limit_key, jobs.ACTIVE, jobs.DONE)
        if dependents:
            flow.ripple(tx, id)
    return held, workers


def put_back(tx: Transaction, held: Sequence[Job], backoff: Backoff) -> None:
    """Give back claims that nobody began, unspent: most of them all at once, so that it is soon over."""
    if not held:
        return
    hold.all_jobs(tx, [job.id for job in held])
    ready = {id for (id,) in tx.many("claim.put_back", [(job.id, job.token) for job in held])}
    ids: dict[tuple[str, str | None], list[int]] = {}
    for job in held:
        if job.id in ready:
            ids.setdefault((job.queue, job.worker_id), []).append(job.id)
    for (queue, worker), back in ids.items():
        tx.moved(jobs.RELEASE, queue, jobs.ACTIVE, jobs.READY, back, worker=worker)
    for worker in sorted({worker for _, worker in ids if worker is not None}):
        tx.execute("worker.settled", id=worker, succeeded=0, failed=0, error=None, now=tx.now)
    for job in held:
        if job.id not in ready:
            end_claim(tx, job, Returned(), backoff, 0.0)


def _finish_sourced(tx: Transaction, rows: Sequence[Row], workers: dict[str, int]) -> list[Row]:
    """Settle those that came from a source, which leave no row unless others wait for it; what is left to settle."""
    gone: list[sourced.Finished] = []
    kept: list[sourced.Finished] = []
    others: list[Row] = []
    for row in rows:
        id, token, queue, worker, *_, dependents, _, source, key = row
        if source is not None and is_internal(queue):
            end_claim(tx, flow.job_of(tx, id), Done(), Backoff(), 0.0)
        elif source is None or dependents:
            others.append(row)
            kept += [] if source is None else [(id, source, key, worker, token, queue)]
        else:
            gone.append((id, source, key, worker, token, queue))
            workers[worker] = workers.get(worker, 0) + 1
    for queue in sorted({each[5] for each in gone}):
        mind_breaker(tx, queue, 0, None)
    if gone:
        sourced.finish(tx, gone)
    if kept:
        sourced.keep(tx, kept)
    return others


def mind_breaker(tx: Transaction, queue: str, failed: int, error: str | None) -> None:
    """Count failures in a row where the queue has a breaker, and pause it when there are too many."""
    limits = flow.queue_of(tx, queue)
    if limits.breaker is None or (not failed and not limits.failures):
        return
    in_a_row = tx.execute("queue.count_failures", queue=queue, failed=failed)[0][0]
    if in_a_row >= limits.breaker:
        reason = f"{in_a_row} failures in a row; the last: {error}"
        if tx.execute("queue.pause", queue=queue, now=tx.now, by=queues.BREAKER, reason=reason):
            tx.tell("queue", "pause", queue, by=queues.BREAKER, reason=reason[:200])
