"""End claims: one by one for any reason, or many at once when they are done."""

from __future__ import annotations

from collections import Counter, namedtuple

from rota.core import job as jobs
from rota.core import queue as queues
from rota.core.claim import Done, Returned, end
from rota.core.jsontext import compact
from rota.core.retry import Backoff
from rota.core.source import is_internal
from rota.store import source_outcomes
from rota.store.engine import locks
from rota.store.engine.rows import by_id, scalar
from rota.store.jobs import dependencies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.core.claim import Ending
    from rota.core.job import Job
    from rota.core.times import Duration, Instant
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction

    _RunKind = tuple[str, Instant, Duration | None]  # the queue of a run, when it was claimed, how long it had waited

LONGEST_ERROR = 16_384
# A row of `claim.holding`: a job whose claim is about to be settled as done.
HeldJob = namedtuple(
    "HeldJob",
    "id token queue worker_id dependents limit_key source key claimed_at created_at attempts generation due_at",
)
_TOKEN, _SOURCE = map(HeldJob._fields.index, ("token", "source"))


def end_claim(tx: Transaction, job: Job, ending: Ending, backoff: Backoff, chance: float) -> bool:
    """End a job's claim as the core decides; return false, changing nothing, if the claim was no longer there."""
    internal = is_internal(job.queue)
    decided = end(job, source_outcomes.as_pass(tx, job, ending) if internal else ending, backoff, chance)
    due_at = tx.now + decided.delay if decided.delay or decided.verb == jobs.SNOOZE else None
    status, blocked_on = decided.status, decided.blocked_on
    if status is None:
        status, blocked_on = dependencies.resting(tx, job, due_at)
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
        isolated=job.isolated if decided.isolated is None else int(decided.isolated),
        unknown_until=tx.now + decided.unknown if decided.unknown else None,
    ):
        return False
    if decided.leaves_run and not internal:
        attempt, ran = job.attempts + decided.spent, (job.token, job.id, job.worker_id)
        assert job.claimed_at is not None
        waited = first_wait(attempt, job.generation, job.created_at, job.due_at, job.claimed_at)
        tx.ran(job.queue, decided.verb, tx.now - job.claimed_at, waited)
        told = (decided.verb, decided.reason, error, decided.note, job.renewed_count)
        tx.many("claim.record", [(*ran, attempt, job.generation, job.claimed_at, tx.now, *told)])
        if job.transcript_path is not None or job.stderr_path is not None:
            paths = {"transcript_path": job.transcript_path, "stderr_path": job.stderr_path}
            tx.execute("claim.record_capture", token=job.token, **paths)
    facts = {"worker": job.worker_id, "token": job.token, "reason": decided.reason, "error": error and error[:200]}
    told_facts = {name: value for name, value in facts.items() if value is not None}
    tx.moved(decided.verb, job.queue, jobs.ACTIVE, status, [job.id], **told_facts)
    succeeded = int(status == jobs.DONE)
    failed = int(decided.verb == jobs.FAIL or (decided.verb in (jobs.EXPIRE, jobs.DIE) and decided.spent > 0))
    if not tx.borrowed:
        tx.execute("worker.settled", id=job.worker_id, succeeded=succeeded, failed=failed, error=error, now=tx.now)
    dependencies.left(tx, job.queue, job.limit_key, jobs.ACTIVE, status)
    if status in jobs.FINAL and job.dependents:
        dependencies.ripple(tx, job.id)
    if (succeeded or decided.verb == jobs.FAIL) and not internal:
        update_breaker(tx, job.queue, failed, error)
    if job.source is not None:
        source_outcomes.ended(tx, job, decided, status, bool(failed), error)
    return True


def end_unheld(tx: Transaction, verb: str, job: Job, status: str, result: str | None, error: str | None) -> None:
    """End a job that nobody holds."""
    tx.execute("job.finish_unheld", id=job.id, old=job.status, status=status, result=result, error=error, now=tx.now)
    tx.moved(verb, job.queue, job.status, status, [job.id])
    dependencies.left(tx, job.queue, job.limit_key, job.status, status)
    if job.dependents:
        dependencies.ripple(tx, job.id)
    if status == jobs.DONE:
        source_outcomes.forced(tx, job)


def finish(tx: Transaction, done: Sequence[tuple[str | None, int, int]]) -> tuple[set[int], dict[str, int]]:
    """Settle claims as done, each `(result, job id, token)`.

    Returns:
        The tokens that were still current, and how many jobs each worker finished.
    """
    if not done:
        return set(), {}
    results = {(id, token): result for result, id, token in done}
    active = tx.execute("claim.holding", ids=compact([id for id, _ in results]))
    rows: Sequence[Row] = [row for row in active if row[:2] in results]
    tokens = {row[_TOKEN] for row in rows}
    workers: dict[str, int] = {}
    if any(row[_SOURCE] is not None for row in rows):
        rows = _finish_sourced(tx, [HeldJob(*row) for row in rows], workers)
    runs: dict[_RunKind, int] = {}
    ids: dict[str, list[int]] = {}
    ended: dict[int, str | None] = {}
    awaited: list[tuple[int, str, int, str | None]] = []
    # With the loop of `_deal_out` the hottest of an exchange: rows are unpacked here, not made into a `HeldJob` each.
    for row in rows:
        id, token, queue, worker, dependents, limit_key, _, _, claimed_at, created_at, attempts, generation, due = row
        if attempts or generation > 1 or due is not None:
            waited = first_wait(attempts + 1, generation, created_at, due, claimed_at)
        else:
            waited = claimed_at - created_at
        run = queue, claimed_at, waited
        runs[run] = runs.get(run, 0) + 1
        ended[id] = results[id, token]
        ids.setdefault(queue, []).append(id)
        workers[worker] = workers.get(worker, 0) + 1
        if dependents or limit_key is not None:
            awaited.append((id, queue, dependents, limit_key))
    _count_done(tx, runs)
    if ended:
        params = {"now": tx.now, "ids": compact(list(ended))}, {"now": tx.now, "results": by_id(ended)}
        both = tuple(zip(("claim.record_done", "claim.finish"), params, strict=True))
        for statement, values in both:
            tx.prefetch(statement, **values)
        for statement, values in both:
            tx.execute(statement, **values)
    for queue, finished in ids.items():
        tx.moved(jobs.FINISH, queue, jobs.ACTIVE, jobs.DONE, finished)
        update_breaker(tx, queue, 0, None)
    for id, queue, dependents, limit_key in awaited:
        dependencies.left(tx, queue, limit_key, jobs.ACTIVE, jobs.DONE)
        if dependents:
            dependencies.ripple(tx, id)
    return tokens, workers


def first_wait(
    attempt: int, generation: int, created_at: Instant, due_at: Instant | None, claimed_at: Instant
) -> Duration | None:
    """Return how long a job waited for its first claim; None for a later one, and for one that waited for its time."""
    is_first = attempt == 1 and generation == 1 and (due_at is None or due_at > claimed_at)
    return claimed_at - created_at if is_first else None


def _count_done(tx: Transaction, runs: Mapping[_RunKind, int]) -> None:
    """Count runs that end now as done. Most of an exchange were claimed, and waited, equally long."""
    for (queue, claimed_at, waited), n in runs.items():
        tx.ran(queue, jobs.FINISH, tx.now - claimed_at, waited, n)


def _run_of(job: HeldJob) -> _RunKind:
    waited = first_wait(job.attempts + 1, job.generation, job.created_at, job.due_at, job.claimed_at)
    return job.queue, job.claimed_at, waited


def put_back(tx: Transaction, held: Sequence[Job], backoff: Backoff) -> None:
    """Release claims that nobody started, unspent; most of them all at once, so that it is soon over."""
    if not held:
        return
    locks.all_jobs(tx, [job.id for job in held])
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


def set_aside(tx: Transaction, claims: Sequence[tuple[str | None, int, int]], backoff: Backoff) -> set[int]:
    """End claims on jobs of a kind that their worker does not know, each `(note, job id, token)`.

    Many at once, so that a long queue of them is soon out of the way, except those that need the general way.

    Returns:
        The tokens that were still current.
    """
    if not claims:
        return set()
    until = tx.now + backoff.unknown
    ended = tx.many("claim.set_aside", [(until, note, id, token) for note, id, token in claims])
    ids: dict[tuple[str, str], list[int]] = {}
    for id, _, queue, worker in sorted(ended):
        ids.setdefault((queue, worker), []).append(id)
    for (queue, worker), aside in ids.items():
        facts = {"worker": worker, "reason": jobs.UNKNOWN_KIND}
        tx.moved(jobs.RELEASE, queue, jobs.ACTIVE, jobs.BLOCKED, aside, **facts)
    for worker in sorted({worker for _, worker in ids}):
        tx.execute("worker.settled", id=worker, succeeded=0, failed=0, error=None, now=tx.now)
    return {token for _, token, _, _ in ended}


def _finish_sourced(tx: Transaction, held: Sequence[HeldJob], workers: dict[str, int]) -> list[HeldJob]:
    """Settle the jobs of sources, which leave no row unless others wait for it; return those left to settle."""
    gone: list[HeldJob] = []
    kept: list[HeldJob] = []
    others: list[HeldJob] = []
    for job in held:
        if job.source is None:
            others.append(job)
        elif is_internal(job.queue):
            end_claim(tx, dependencies.job_of(tx, job.id), Done(), Backoff(), 0.0)
        elif job.dependents:
            others.append(job)
            kept.append(job)
        else:
            gone.append(job)
            workers[job.worker_id] = workers.get(job.worker_id, 0) + 1
    for queue in sorted({job.queue for job in gone}):
        update_breaker(tx, queue, 0, None)
    _count_done(tx, Counter(map(_run_of, gone)))
    if gone:
        source_outcomes.finish(tx, gone)
    if kept:
        source_outcomes.keep(tx, kept)
    return others


def update_breaker(tx: Transaction, queue: str, failed: int, error: str | None) -> None:
    """Count failures in a row where the queue has a breaker, and pause it when there are too many."""
    limits = dependencies.queue_of(tx, queue)
    if limits.breaker is None or (not failed and not limits.failures):
        return
    in_a_row = scalar(tx.execute("queue.count_failures", queue=queue, failed=failed))
    if in_a_row >= limits.breaker:
        reason = f"{in_a_row} failures in a row; the last: {error}"
        if tx.execute("queue.pause", queue=queue, now=tx.now, by=queues.BREAKER, reason=reason):
            tx.changed("queue", "pause", queue, by=queues.BREAKER, reason=reason[:200])
