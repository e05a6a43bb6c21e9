"""The exchange: settle what workers report and claim for those with room, in one transaction (decision 3)."""

from __future__ import annotations

import time

from rota.core import job as jobs
from rota.core.claim import Done, Released, verb_of
from rota.core.errors import Stale
from rota.core.frames.assignment import Assignment
from rota.core.frames.messages import NO_KINDS
from rota.core.orchestrator import LEASE
from rota.core.queue import DEFAULT, allow
from rota.core.record import Record
from rota.core.source import internal_queue
from rota.store import metrics, ownership, source_outcomes
from rota.store.claims import settle as settling
from rota.store.claims.ready_scan import PickedJob
from rota.store.engine import locks
from rota.store.engine.rows import by_id, to_job, to_run
from rota.store.maintenance import tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rota.core.claim import Outcome, Run
    from rota.core.frames.messages import Kinds
    from rota.core.queue import Queue
    from rota.core.times import Duration
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

    Settled = tuple[int, int, Outcome]  # a job's id, its token, and what became of it
    Checkpoint = tuple[str, int, int]  # JSON text, a job's id, its token
    Dealt = tuple[str, Row]  # a worker's id and the job that it gets, as `PickedJob` names its columns

PREVIOUS_RUNS = 5  # that a worker is told of, with a job that ran before
MOST_OVER_HTTP = 256  # claims of one exchange, whose answer holds payloads and checkpoints of half a megabyte each


class Idle(Record):
    """A worker of a queue's pool with room for so many more jobs, besides those it holds.

    The pool `default` serves every queue that has no pool. `crowd`: the worker runs all its jobs at the same time.
    `whole` are the kinds of which it wants the whole job, as people see it.
    """

    worker_id: str
    queue: str
    room: int = 1
    held: int = 0
    crowd: bool = False
    whole: Kinds = NO_KINDS


class Report(Record):
    """What an orchestrator brings to an exchange: outcomes, checkpoints, and which workers have room.

    `holdings`, given after a lost answer, are all tokens still held: every other claim of this orchestrator goes back
    unspent. `served` is the queue that the pool `default` had its last job from. `fills`: whether its workers have
    sources and reach the database, as a pass over a source must.
    """

    outcomes: Sequence[Settled] = ()
    idle: Sequence[Idle] = ()
    checkpoints: Sequence[Checkpoint] = ()
    holdings: Collection[int] | None = None
    served: str = ""
    fills: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write, unless there is something to claim."""
        return not self.outcomes and not self.checkpoints and self.holdings is None


class Exchange(Record):
    """The answer to an exchange: the claims made, the tokens whose outcome was refused, and its running number.

    `rate_free_in`: after how long a rate allows the next claim, where a rate left a worker of the report without one.
    """

    claims: list[Assignment]
    refused: list[int]
    number: int
    rate_free_in: Duration | None = None


class _NothingToDo(Exception):
    """Undoes an exchange that settled and claimed nothing."""

    def __init__(self, rate_free_in: Duration | None) -> None:
        self.rate_free_in = rate_free_in


class _PickedTooEarly(Exception):
    """Undoes an exchange that picked jobs ahead although something was due before, so that it is repeated in order."""


def exchange(store: Store, id: int, number: int, report: Report) -> Exchange:
    """Settle what an orchestrator's workers report and claim for those with room, in one transaction.

    Args:
        store: The store.
        id: The orchestrator.
        number: The running number of its last exchange.
        report: The outcomes, the checkpoints and the workers with room.

    Returns:
        The claims and the refused tokens. If there was nothing to do, nothing is written and the number stays.

    Raises:
        Stale: The exchange came late, or the orchestrator was given up.
    """
    if store.access is not None:
        # Over HTTP its workers reach no database, so they cannot read a source (decision 21).
        report = report.replace(fills=False, idle=_share_out(report.idle, MOST_OVER_HTTP))
    try:
        try:
            answer = _exchange(store, id, number, report, ahead=report.is_empty)
        except _PickedTooEarly:
            answer = _exchange(store, id, number, report, ahead=False)
    except _NothingToDo as nothing:
        return Exchange([], [], number, nothing.rate_free_in)
    if answer.refused:
        metrics.count_refusals(store, len(answer.refused))
    return answer


def _share_out(idle: Sequence[Idle], most: int) -> Sequence[Idle]:
    """Limit the room of all workers together, shared evenly among them."""
    if _room(idle) <= most:
        return idle
    share = max(1, most // len(idle))
    return [worker.replace(room=min(worker.room, share)) for worker in idle[:most]]


def _exchange(store: Store, id: int, number: int, report: Report, ahead: bool) -> Exchange:
    store.ready_scans.begin(time.monotonic_ns() // 1000)
    with store.write(f"orchestrator-{id}") as tx:
        ownership.orchestrator(store, id)
        outcomes, checkpoints = ownership.reported(store, report.outcomes, report.checkpoints)
        # All that does not depend on an answer is sent in one message (decision 25).
        advance = {"id": id, "number": number + 1, "lease": LEASE, **tx.clock}
        tx.prefetch("orchestrator.advance", **advance)
        tx.prefetch("queue.all")
        tx.prefetch("tick.due", **tx.clock)
        tx.prefetch("worker.of_orchestrator", orchestrator=id)
        ahead = ahead and tx.networked and _prefetch_picks(store, tx, report)
        if not tx.execute("orchestrator.advance", **advance):
            raise Stale(f"exchange {number + 1} of orchestrator {id} came late, or it was given up")
        queue_rows = locks.queues(tx, _served_queues(report.idle), [job for job, _, _ in outcomes])
        if checkpoints:
            tx.many("claim.checkpoint", checkpoints)
        settled, finished = settle(store, tx, outcomes)
        if report.holdings is not None:
            give_back(store, tx, id, report.holdings)
        due = tick.is_due(tx)
        if ahead and due:
            raise _PickedTooEarly
        if due and outcomes:
            # The first answer was prefetched on PostgreSQL: what was due then may have been settled just now.
            due = tick.is_due(tx)
        if due:
            tick.run_due(store, tx)
        claims = _claim_for(store, tx, id, report, queue_rows)
        rate_free_in = None if tx.rate_free_at is None else tx.rate_free_at - tx.now
        if report.is_empty and not claims and not due:
            raise _NothingToDo(rate_free_in)
        _mirror(tx, finished, claims)
        return Exchange(claims, _refused(tx, report.outcomes, settled), number + 1, rate_free_in)


def settle(store: Store, tx: Transaction, outcomes: Sequence[Settled]) -> tuple[set[int], dict[str, int]]:
    """Settle outcomes; return the tokens that were still current, and how many jobs each worker finished."""
    done = [(outcome.result, job, token) for job, token, outcome in outcomes if isinstance(outcome, Done)]
    if len(done) < len(outcomes):
        locks.all_jobs(tx, (job for job, _, _ in outcomes))
    settled, finished = settling.finish(tx, done)
    unknown = [
        (outcome.note, job, token)
        for job, token, outcome in outcomes
        if isinstance(outcome, Released) and outcome.reason == jobs.UNKNOWN_KIND
    ]
    settled |= settling.set_aside(tx, unknown, store.settings.backoff)
    for job_id, token, outcome in outcomes:
        if isinstance(outcome, Done) or token in settled:
            continue
        row = tx.one("job.lock", id=job_id)
        job = to_job(row) if row else None
        if job and job.status == jobs.ACTIVE and job.token == token:
            settling.end_claim(tx, job, outcome, store.settings.backoff, store.chance())
            settled.add(token)
    return settled, finished


def give_back(store: Store, tx: Transaction, id: int, holdings: Collection[int]) -> None:
    """Release, unspent, the claims of this orchestrator that are not among its holdings."""
    held, kept = [to_job(row) for row in tx.execute("orchestrator.held", id=id)], frozenset(holdings)
    settling.put_back(tx, [job for job in held if job.token not in kept], store.settings.backoff)


def _refused(tx: Transaction, outcomes: Sequence[Settled], settled: set[int]) -> list[int]:
    """Return the tokens that were no longer current; settling again with the token that settled is no error."""
    refused = []
    for job_id, token, outcome in outcomes:
        if token not in settled:
            row = tx.one("claim.run", token=token)
            ended = to_run(row) if row else None
            if ended is None and isinstance(outcome, Done) and source_outcomes.is_settled(tx, token):
                continue
            if ended is None or ended.job_id != job_id or ended.verb != verb_of(outcome):
                refused.append(token)
            else:
                # The handler may have settled it in its own transaction, which leaves the worker's row to us (decision
                # 18).
                tx.execute("worker.settled", id=ended.worker_id, succeeded=0, failed=0, error=None, now=tx.now)
    return refused


def _mirror(tx: Transaction, finished: dict[str, int], claims: Sequence[Assignment]) -> None:
    """Show in the workers' rows what they finished and what they run now."""
    first = {claim.worker_id: claim.job_id for claim in reversed(claims)}
    tx.many("worker.exchanged", [(finished.get(worker, 0), job, worker) for worker, job in sorted(first.items())])
    for worker, count in finished.items():
        if worker not in first:
            tx.execute("worker.settled", id=worker, succeeded=count, failed=0, error=None, now=tx.now)


def _room(idle: Sequence[Idle], most: int | None = None) -> int:
    """Return for how many jobs these workers have room, at most `most`."""
    room = sum(worker.room for worker in idle)
    return room if most is None else min(room, most)


def _served_queues(idle: Sequence[Idle]) -> set[str] | None:
    """Return the queues that these workers may get a job from; None for any."""
    names = {worker.queue for worker in idle if worker.room > 0}
    return None if DEFAULT in names else names


def _prefetch_picks(store: Store, tx: Transaction, report: Report) -> bool:
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
    store.ready_scans.prefetch(tx, queue, _room(idle, most))


def _claim_for(
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
    share = -(-_room(idle) // max(1, len(turn)))
    for most in (share, None):
        with_more = []
        for queue in turn:
            room = _room(idle, most)
            claimed = _hand_out(store, tx, orchestrator, queue, idle, report.fills, most)
            claims += claimed
            idle = _still_idle(idle, claimed)
            if not idle:
                return claims
            if len(claimed) >= room:
                with_more.append(queue)
        # The other queues had no further ready jobs.
        turn = with_more
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
    want = _room(idle, most)
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
    first = PickedJob(*dealt[0][1])
    # PostgreSQL drew them with the pick, which saves a message (decision 25).
    drawn = iter(() if first.drawn_token else tx.draw_many("token", len(dealt)))
    claims: list[Assignment] = []
    tokens: dict[str, dict[int, int]] = {}
    sources: set[str] = set()
    fenced, name = queue.fence == "end", queue.name
    # The hottest loop of an exchange: rows are unpacked, and claims are made by position.
    for worker, row in dealt:
        id, kind, title, payload, priority, attempts, max_attempts, timeout, checkpoint, last_token, *rest = row
        source, key, trace, scheduled_for, _, isolated, drawn_token = rest
        token = drawn_token or next(drawn)
        tokens.setdefault(worker, {})[id] = token
        runs = _previous_runs(tx, id) if last_token is not None else ()
        job = (id, token, worker, name, kind, title, payload, priority, attempts + 1, max_attempts, timeout, checkpoint)
        claims.append(Assignment(*job, fenced, key, runs, isolated > 0, None, source, trace, scheduled_for))
        if source is not None:
            sources.add(source)
    takes = [
        {"tokens": by_id(taken), "worker": worker, "orchestrator": orchestrator, "now": tx.now}
        for worker, taken in tokens.items()
    ]
    for take in takes:
        tx.prefetch("claim.take_all", **take)
    for take in takes:
        tx.execute("claim.take_all", **take)
    moved_in = internal_queue(name) if internal else name
    for worker, taken in tokens.items():
        tx.moved(jobs.CLAIM, moved_in, jobs.READY, jobs.ACTIVE, list(taken), worker=worker)
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


def _deal(idle: Sequence[Idle], picked: Sequence[Row]) -> list[Dealt]:
    """Deal the jobs to the workers, one each, round by round, until all room is used."""
    if any(worker.crowd for worker in idle):
        return _deal_to_crowds(idle, picked)
    turns: list[str] = []
    for turn in range(max(worker.room for worker in idle)):
        turns += [worker.worker_id for worker in idle if worker.room > turn]
    return list(zip(turns, picked, strict=False))


def _deal_to_crowds(idle: Sequence[Idle], picked: Sequence[Row]) -> list[Dealt]:
    """Deal the jobs in strict order, where some workers run several jobs at a time.

    An isolated job waits for a worker that runs nothing, and all jobs behind it wait too: a worker that is always given
    more would never be free for it (decision 13).
    """
    room = {worker.worker_id: worker.room for worker in idle}
    held = {worker.worker_id: worker.held for worker in idle}
    crowds = {worker.worker_id for worker in idle if worker.crowd}
    dealt: list[Dealt] = []
    for row in picked:
        is_isolated = bool(PickedJob(*row).isolated)
        free = [name for name, left in room.items() if left and not (is_isolated and name in crowds and held[name])]
        if not free:
            break
        worker = max(free, key=lambda name: room[name])
        dealt.append((worker, row))
        held[worker] += 1
        room[worker] = 0 if is_isolated and worker in crowds else room[worker] - 1
    return dealt
