"""Assign ready jobs to workers with room: pick the best of each queue, deal them out, and claim them.

Part of an exchange, which has settled and locked what comes before.
"""

from __future__ import annotations

from rota.core import job as jobs
from rota.core.frames.assignment import Assignment
from rota.core.frames.messages import NO_KINDS
from rota.core.queue import DEFAULT, allow
from rota.core.source import internal_queue
from rota.store import source_outcomes
from rota.store.engine.rows import by_id, to_job, to_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.claim import Run
    from rota.core.frames.messages import Kinds
    from rota.core.queue import Queue
    from rota.store.claims.exchange import Idle, Report
    from rota.store.claims.ready_scan import PickedJob
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

    Dealt = tuple[str, PickedJob]  # a worker's id and the job that it gets

PREVIOUS_RUNS = 5  # that a worker is told of, with a job that ran before


def total_room(idle: Sequence[Idle], most: int | None = None) -> int:
    """Return for how many jobs these workers have room, at most `most`."""
    room = sum(worker.room for worker in idle)
    return room if most is None else min(room, most)


def served_queues(idle: Sequence[Idle]) -> set[str] | None:
    """Return the queues that these workers may get a job from; None for any."""
    names = {worker.queue for worker in idle if worker.room > 0}
    return None if DEFAULT in names else names


def prefetch_picks(store: Store, tx: Transaction, report: Report) -> bool:
    """Send the picks ahead if every queue served was open and without limits last time: it mostly still is.

    Queues with limits must be locked before their jobs are. The pool `default` is expected to find its jobs in the only
    queue without a pool, if there was only one (decision 25).

    Returns:
        Whether jobs are being picked ahead.
    """
    by_queue: dict[str, list[Idle]] = {}
    for worker in report.idle:
        queue = store.spare_queue if worker.queue == DEFAULT else worker.queue
        if queue not in store.plain_queues:
            return False
        if worker.room > 0:
            by_queue.setdefault(queue, []).append(worker)
            if worker.queue == DEFAULT:
                tx.prefetch("slot.served")
    for queue, idle in sorted(by_queue.items()):
        _prefetch_pick(store, tx, queue, idle, report.fills)
    return bool(by_queue)


def _prefetch_pick(
    store: Store, tx: Transaction, queue: str, idle: Sequence[Idle], fills: bool, most: int | None = None
) -> None:
    if fills:
        store.ready_scans.prefetch(tx, internal_queue(queue), len(idle))
    store.ready_scans.prefetch(tx, queue, total_room(idle, most))


def claim_for(
    store: Store, tx: Transaction, orchestrator: int, report: Report, queue_rows: list[Row] | None
) -> list[Assignment]:
    """Claim the best ready jobs for the workers of a report that have room.

    Args:
        store: The store.
        tx: The transaction of the exchange.
        orchestrator: The orchestrator whose workers they are.
        report: Which workers have room, and how their orchestrator serves them.
        queue_rows: The rows of all queues if the caller has just read them.
    """
    living = {worker for (worker,) in tx.execute("worker.of_orchestrator", orchestrator=orchestrator)}
    idle_by_queue: dict[str, list[Idle]] = {}
    for worker in report.idle:
        if worker.room > 0 and worker.worker_id in living:
            idle_by_queue.setdefault(worker.queue, []).append(worker)
    of_default_pool = idle_by_queue.pop(DEFAULT, [])
    claims: list[Assignment] = []
    if not (idle_by_queue or of_default_pool):
        return claims
    open_ones = store.queues.open_ones(rows=queue_rows)
    store.plain_queues = frozenset(queue.name for queue in open_ones if not (queue.has_limits or queue.is_one_by_one))
    for queue in open_ones:
        if queue.name in idle_by_queue:
            claims += _hand_out(store, tx, orchestrator, queue, idle_by_queue[queue.name], report.fills)
    if of_default_pool:
        claims += _serve_all(store, tx, orchestrator, open_ones, of_default_pool, report)
    return claims


def _serve_all(
    store: Store, tx: Transaction, orchestrator: int, queues: Sequence[Queue], idle: list[Idle], report: Report
) -> list[Assignment]:
    """Hand out from every queue that has no pool, round robin: the one after the last served comes first."""
    served = {name for (name,) in tx.execute("slot.served")}
    unserved = sorted((queue for queue in queues if queue.name not in served), key=lambda queue: queue.name)
    if store.spare_queue in served:
        # We may have locked its jobs speculatively; wake its own crew (decision 25).
        tx.something_to_claim = True
    store.spare_queue = unserved[0].name if len(unserved) == 1 else ""
    last = report.served
    turn = [queue for queue in unserved if queue.name > last] + [queue for queue in unserved if queue.name <= last]
    claims: list[Assignment] = []
    share = -(-total_room(idle) // max(1, len(turn)))
    for most in (share, None):
        with_more = []
        for queue in turn:
            room = total_room(idle, most)
            claimed = _hand_out(store, tx, orchestrator, queue, idle, report.fills, most)
            claims += claimed
            idle = _still_idle(idle, claimed)
            if not idle:
                return claims
            if len(claimed) >= room:
                with_more.append(queue)
        turn = with_more  # the others had no further ready jobs
    return claims


def _still_idle(idle: Sequence[Idle], claims: Sequence[Assignment]) -> list[Idle]:
    """Return the workers that still have room after these claims."""
    taken: dict[str, int] = {}
    for claim in claims:
        taken[claim.worker_id] = taken.get(claim.worker_id, 0) + 1
    isolated = {claim.worker_id for claim in claims if claim.isolated}
    left = [
        worker.replace(
            room=worker.room - taken.get(worker.worker_id, 0), held=worker.held + taken.get(worker.worker_id, 0)
        )
        for worker in idle
        if not (worker.crowd and worker.worker_id in isolated)
    ]
    return [worker for worker in left if worker.room > 0]


def _hand_out(
    store: Store,
    tx: Transaction,
    orchestrator: int,
    queue: Queue,
    idle: Sequence[Idle],
    fills: bool,
    most: int | None = None,
) -> list[Assignment]:
    """Claim the best ready jobs of a queue and deal them out; the fillers of its sources come first (decision 16)."""
    if tx.networked and not (queue.is_limited or queue.is_one_by_one):
        _prefetch_pick(store, tx, queue.name, idle, fills, most)
    fillers = store.ready_scans.pick(tx, internal_queue(queue.name), len(idle)) if fills else []
    if not fillers:
        return _hand_out_jobs(store, tx, orchestrator, queue, idle, most)
    # Jobs may have been prefetched for which there is no room now; wake others to look for them (decision 25).
    tx.something_to_claim = True
    dealt = _deal([worker.replace(room=1) for worker in idle], fillers)
    claims = _deal_out(tx, orchestrator, queue, dealt, idle, internal=True) if dealt else []
    idle = _still_idle(idle, claims)
    return claims + (_hand_out_jobs(store, tx, orchestrator, queue, idle, most) if idle else [])


def _hand_out_jobs(
    store: Store, tx: Transaction, orchestrator: int, queue: Queue, idle: Sequence[Idle], most: int | None = None
) -> list[Assignment]:
    if queue.is_one_by_one:
        idle = [
            worker if worker.crowd else worker.replace(room=1) for worker in idle if worker.crowd or not worker.held
        ]
    want = total_room(idle, most)
    free_at = None
    if queue.is_limited:
        allowance = allow(queue, tx.running(queue.name) if queue.concurrency is not None else 0, want, tx.now)
        want = allowance.granted
        free_at = allowance.rate_next_at if allowance.limit == "rate" else None
    dealt = _pick(store, tx, queue, idle, want) if want else []
    # Fewer than wanted means that no more jobs are ready, so the rate holds nothing back.
    if free_at is not None and len(dealt) == want:
        tx.rate_free_at = min(free_at, tx.rate_free_at or free_at)
    if not dealt:
        return []
    if queue.rate is not None:
        spent = allow(queue, 0, len(dealt), tx.now)
        tx.execute("queue.spend_rate", queue=queue.name, rate_next_at=spent.rate_next_at)
    return _deal_out(tx, orchestrator, queue, dealt, idle)


def _pick(store: Store, tx: Transaction, queue: Queue, idle: Sequence[Idle], want: int) -> list[Dealt]:
    """Lock the best ready jobs of a queue, each with the worker that gets it."""
    picked = store.ready_scans.pick(tx, queue.name, want)
    dealt = _deal(idle, picked) if picked else []
    store.ready_scans.took(queue.name, [job for _, job in dealt])
    return dealt


def _deal_out(
    tx: Transaction,
    orchestrator: int,
    queue: Queue,
    dealt: Sequence[Dealt],
    idle: Sequence[Idle],
    internal: bool = False,
) -> list[Assignment]:
    """Claim each of these jobs for its worker, in token order."""
    picked = [job for _, job in dealt]
    if picked[0].drawn_token:  # PostgreSQL drew them with the pick, which saves a message (decision 25)
        drawn = [job.drawn_token for job in picked]
    else:
        drawn = tx.draw_many("token", len(picked))
    claims: list[Assignment] = []
    tokens: dict[str, dict[int, int]] = {}
    sources: set[str] = set()
    fenced = queue.fence == "end"
    for (worker, job), token in zip(dealt, drawn, strict=True):
        tokens.setdefault(worker, {})[job.id] = token
        claims.append(
            # By position: this is the hottest loop of an exchange.
            Assignment(
                job.id,
                token,
                worker,
                queue.name,
                job.kind,
                job.title,
                job.payload,
                job.priority,
                job.attempts + 1,
                job.max_attempts,
                job.timeout,
                job.checkpoint,
                fenced,
                job.key,
                _previous_runs(tx, job.id) if job.last_token is not None else (),
                job.isolated > 0,
                None,
                job.source,
                job.trace,
                job.scheduled_for,
            )
        )
        if job.source is not None:
            sources.add(job.source)
    takes = [
        {"tokens": by_id(taken), "worker": worker, "orchestrator": orchestrator, "now": tx.now}
        for worker, taken in tokens.items()
    ]
    for take in takes:
        tx.prefetch("claim.take_all", **take)
    for take in takes:
        tx.execute("claim.take_all", **take)
    name = internal_queue(queue.name) if internal else queue.name
    for worker, taken in tokens.items():
        tx.moved(jobs.CLAIM, name, jobs.READY, jobs.ACTIVE, list(taken), worker=worker)
    if sources and not internal:
        source_outcomes.top_up(tx, sources)
    whole_kinds = {worker.worker_id: worker.whole for worker in idle if worker.whole}
    return [_made_whole(tx, claim, whole_kinds) for claim in claims] if whole_kinds else claims


def _made_whole(tx: Transaction, claim: Assignment, whole_kinds: dict[str, Kinds]) -> Assignment:
    """Add the whole job to a claim whose worker wants that for its kind."""
    if claim.kind not in whole_kinds.get(claim.worker_id, NO_KINDS):
        return claim
    row = tx.one("job.get", id=claim.job_id)
    assert row is not None
    after = tuple(id for id, _ in tx.execute("dependency.of_job", job=claim.job_id))
    children = tuple(id for (id,) in tx.execute("job.children", id=claim.job_id))
    return claim.replace(whole=to_job(row).replace(after=after, children=children))


def _previous_runs(tx: Transaction, job: int) -> tuple[Run, ...]:
    """Return what the last claims on a job did, oldest first."""
    return tuple(to_run(row) for row in reversed(tx.execute("claim.last_runs", job=job, most=PREVIOUS_RUNS)))


def _deal(idle: Sequence[Idle], picked: Sequence[PickedJob]) -> list[Dealt]:
    """Deal the jobs to the workers, one each, round by round, until all room is used."""
    if any(worker.crowd for worker in idle):
        return _deal_to_crowds(idle, picked)
    turns: list[str] = []
    for turn in range(max(worker.room for worker in idle)):
        turns += [worker.worker_id for worker in idle if worker.room > turn]
    return list(zip(turns, picked, strict=False))


def _deal_to_crowds(idle: Sequence[Idle], picked: Sequence[PickedJob]) -> list[Dealt]:
    """Deal the jobs in strict order, where some workers run several jobs at a time.

    An isolated job waits for a worker that runs nothing, and all jobs behind it wait too: a worker that is always given
    more would never be free for it (decision 13).
    """
    room = {worker.worker_id: worker.room for worker in idle}
    held = {worker.worker_id: worker.held for worker in idle}
    crowds = {worker.worker_id for worker in idle if worker.crowd}
    dealt: list[Dealt] = []
    for job in picked:
        is_isolated = bool(job.isolated)
        free = [name for name, left in room.items() if left and not (is_isolated and name in crowds and held[name])]
        if not free:
            break
        worker = max(free, key=lambda name: room[name])
        dealt.append((worker, job))
        held[worker] += 1
        room[worker] = 0 if is_isolated and worker in crowds else room[worker] - 1
    return dealt
