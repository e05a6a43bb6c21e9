"""The exchange: settle what workers report and claim for those with room, in one transaction."""

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
    from rota.store.claims.ready_scan import PickedJob
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

    Settled = tuple[int, int, Outcome]
    Checkpoint = tuple[str, int, int]

RUNS_TOLD = 5
MOST_FAR = 256  # claims of one exchange over HTTP, whose answer holds payloads and checkpoints of half a megabyte each


class Idle(Record):
    """A worker of a queue's pool with room for so many more jobs, besides those it holds.

    The pool `default` serves every queue that has no pool. `crowd`: it has all of them in hand at a time. `whole` are
    the kinds of which it wants the whole job, as people see it.
    """

    worker_id: str
    queue: str
    room: int = 1
    held: int = 0
    crowd: bool = False
    whole: Kinds = NO_KINDS


class Report(Record):
    """What an orchestrator brings: outcomes, checkpoints, and who has room.

    `holdings`, given after a lost answer, are all tokens still held: whatever else hangs on this orchestrator goes
    back unspent. `served` is the queue that the pool `default` had its last job from. `fills`: whether its workers
    have sources and reach the database, which looking for work in one needs.
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
    """What an exchange answered: the claims made, the tokens whose outcome was refused, and its running number.

    `rate_free_in`: after how long a rate allows the next claim, where a rate left a worker of the report without one.
    """

    claims: list[Assignment]
    refused: list[int]
    number: int
    rate_free_in: Duration | None = None


def _within(idle: Sequence[Idle], most: int) -> Sequence[Idle]:
    """Room for at most so many jobs, shared among the workers."""
    if _room(idle) <= most:
        return idle
    share = max(1, most // len(idle))
    return [each.replace(room=min(each.room, share)) for each in idle[:most]]


class _Nothing(Exception):
    """Nothing was there to do: what was written on the way is undone."""

    def __init__(self, rate_free_in: Duration | None) -> None:
        self.rate_free_in = rate_free_in


class _TooSoon(Exception):
    """Jobs were picked before something that comes first: it is undone and done again in order."""


def exchange(store: Store, id: int, number: int, report: Report) -> Exchange:
    """`number` is the running number of the last exchange; a late one is refused. Nothing to do writes nothing."""
    if store.access is not None:  # its workers reach no database, and so no source
        report = report.replace(fills=False, idle=_within(report.idle, MOST_FAR))
    try:
        try:
            answer = _exchange(store, id, number, report, ahead=report.is_empty)
        except _TooSoon:
            answer = _exchange(store, id, number, report, ahead=False)
    except _Nothing as nothing:
        return Exchange([], [], number, nothing.rate_free_in)
    if answer.refused:
        metrics.count_refusals(store, len(answer.refused))
    return answer


def _exchange(store: Store, id: int, number: int, report: Report, ahead: bool) -> Exchange:
    store.ready_scans.begin(time.monotonic_ns() // 1000)
    with store.write(f"orchestrator-{id}") as tx:
        ownership.orchestrator(store, id)
        outcomes, checkpoints = ownership.reported(store, report.outcomes, report.checkpoints)
        mine = {"id": id, "number": number + 1, "lease": LEASE, **tx.clock}
        tx.prefetch("orchestrator.advance", **mine)
        tx.prefetch("queue.all")
        tx.prefetch("tick.due", **tx.clock)
        tx.prefetch("worker.of_orchestrator", orchestrator=id)
        ahead = ahead and tx.networked and _prefetch_picks(store, tx, report)
        if not tx.execute("orchestrator.advance", **mine):
            raise Stale(f"exchange {number + 1} of orchestrator {id} came late, or it was given up")
        queues = locks.queues(tx, _served(report.idle), [job for job, _, _ in outcomes])
        if checkpoints:
            tx.many("claim.checkpoint", checkpoints)
        settled, finished = settle(store, tx, outcomes)
        if report.holdings is not None:
            give_back(store, tx, id, report.holdings)
        due = tick.is_due(tx)
        if ahead and due:
            raise _TooSoon
        if due and outcomes:
            due = tick.is_due(tx)  # PostgreSQL was asked ahead: what was due then may just have been settled
        if due:
            tick.run_due(store, tx)
        claims = _claim(store, tx, id, report, queues)
        if report.is_empty and not claims and not due:
            raise _Nothing(_rate_free_in(tx))
        _mirror(tx, finished, claims)
        return Exchange(claims, _refused(tx, report.outcomes, settled), number + 1, _rate_free_in(tx))


def _rate_free_in(tx: Transaction) -> Duration | None:
    return None if tx.rate_free_at is None else tx.rate_free_at - tx.now


def settle(store: Store, tx: Transaction, outcomes: Sequence[Settled]) -> tuple[set[int], dict[str, int]]:
    """Settle what was reported: the tokens that still held, and how many jobs each worker finished."""
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
    """Release, unspent, what hangs on this orchestrator and is not among its holdings."""
    held, kept = [to_job(row) for row in tx.execute("orchestrator.held", id=id)], frozenset(holdings)
    settling.put_back(tx, [job for job in held if job.token not in kept], store.settings.backoff)


def _refused(tx: Transaction, outcomes: Sequence[Settled], settled: set[int]) -> list[int]:
    """The tokens that no longer held; settling again with the token that settled is no error."""
    refused = []
    for job_id, token, outcome in outcomes:
        if token not in settled:
            row = tx.one("claim.run", token=token)
            ended = to_run(row) if row else None
            if ended is None and isinstance(outcome, Done) and source_outcomes.is_settled(tx, token):
                continue
            if ended is None or ended.job_id != job_id or ended.verb != verb_of(outcome):
                refused.append(token)
            else:  # its handler may have settled it, and left its worker's row to us
                tx.execute("worker.settled", id=ended.worker_id, succeeded=0, failed=0, error=None, now=tx.now)
    return refused


def _prefetch_picks(store: Store, tx: Transaction, report: Report) -> bool:
    """Pick at once if all queues that are served were open and without limits the last time: they mostly still are.

    Otherwise a queue would have to be held before any job. Who serves the queues that have no pool is foreseen to find
    something in the only one, if there was only one.
    """
    by_queue: dict[str, list[Idle]] = {}
    for each in report.idle:
        queue = store.spare_queue if each.queue == DEFAULT else each.queue
        if queue not in store.plain_queues:
            return False
        if each.room > 0:
            by_queue.setdefault(queue, []).append(each)
            if each.queue == DEFAULT:
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


def _served(idle: Sequence[Idle]) -> set[str] | None:
    """The queues from which there may be something for these; None: any."""
    names = {each.queue for each in idle if each.room > 0}
    return None if DEFAULT in names else names


def _claim(store: Store, tx: Transaction, id: int, report: Report, queues: list[Row] | None) -> list[Assignment]:
    living = {worker for (worker,) in tx.execute("worker.of_orchestrator", orchestrator=id)}
    wanted: dict[str, list[Idle]] = {}
    for each in report.idle:
        if each.room > 0 and each.worker_id in living:
            wanted.setdefault(each.queue, []).append(each)
    spare = wanted.pop(DEFAULT, [])
    claims: list[Assignment] = []
    if not (wanted or spare):
        return claims
    open_ones = store.queues.open_ones(rows=queues)
    store.plain_queues = frozenset(queue.name for queue in open_ones if not (queue.has_limits or queue.is_one_by_one))
    for queue in open_ones:
        if queue.name in wanted:
            claims += _hand_out(store, tx, id, queue, wanted[queue.name], report.fills)
    return claims + (_serve_all(store, tx, id, open_ones, spare, report) if spare else [])


def _serve_all(
    store: Store, tx: Transaction, id: int, queues: Sequence[Queue], idle: list[Idle], report: Report
) -> list[Assignment]:
    """Hand out from every queue that has no pool, round robin: the one after the last served comes first."""
    served = {name for (name,) in tx.execute("slot.served")}
    unserved = sorted((queue for queue in queues if queue.name not in served), key=lambda queue: queue.name)
    if store.spare_queue in served:
        tx.something_to_claim = True  # its jobs may have been picked here for nobody: its own crew looks again
    store.spare_queue = unserved[0].name if len(unserved) == 1 else ""
    last = report.served
    turn = [queue for queue in unserved if queue.name > last] + [queue for queue in unserved if queue.name <= last]
    claims: list[Assignment] = []
    share = -(-_room(idle) // max(1, len(turn)))
    for most in (share, None):
        richer = []
        for queue in turn:
            room = _room(idle, most)
            found = _hand_out(store, tx, id, queue, idle, report.fills, most)
            claims += found
            idle = _after(idle, found)
            if not idle:
                return claims
            if len(found) >= room:
                richer.append(queue)
        turn = richer  # the others have given all they have
    return claims


def _after(idle: list[Idle], claims: Sequence[Assignment]) -> list[Idle]:
    """Who still has room, after these claims."""
    taken: dict[str, int] = {}
    for claim in claims:
        taken[claim.worker_id] = taken.get(claim.worker_id, 0) + 1
    isolated = {claim.worker_id for claim in claims if claim.isolated}
    left = [
        each.replace(room=each.room - taken.get(each.worker_id, 0), held=each.held + taken.get(each.worker_id, 0))
        for each in idle
        if not (each.crowd and each.worker_id in isolated)
    ]
    return [each for each in left if each.room > 0]


def _hand_out(
    store: Store, tx: Transaction, id: int, queue: Queue, idle: Sequence[Idle], fills: bool, most: int | None = None
) -> list[Assignment]:
    """Claim the best ready jobs of a queue and deal them out; the fillers of its sources come first."""
    if tx.networked and not (queue.is_limited or queue.is_one_by_one):
        _prefetch_pick(store, tx, queue.name, idle, fills, most)
    fillers = store.ready_scans.pick(tx, internal_queue(queue.name), len(idle)) if fills else []
    if fillers:
        tx.something_to_claim = True  # jobs may have been picked for which there is no room now: others look again
        dealt = _deal([worker.replace(room=1) for worker in idle], fillers)
        claims = _deal_out(tx, id, queue, dealt, idle, internal=True) if dealt else []
        idle = _after(list(idle), claims)
        return claims + (_hand_out_jobs(store, tx, id, queue, idle, most) if idle else [])
    return _hand_out_jobs(store, tx, id, queue, idle, most)


def _room(idle: Sequence[Idle], most: int | None = None) -> int:
    room = sum(each.room for each in idle)
    return room if most is None else min(room, most)


def _hand_out_jobs(
    store: Store, tx: Transaction, id: int, queue: Queue, idle: Sequence[Idle], most: int | None = None
) -> list[Assignment]:
    if queue.is_one_by_one:
        idle = [each if each.crowd else each.replace(room=1) for each in idle if each.crowd or not each.held]
    want = _room(idle, most)
    free_at = None
    if queue.is_limited:
        allowance = allow(queue, tx.running(queue.name) if queue.concurrency is not None else 0, want, tx.now)
        want = allowance.granted
        free_at = allowance.rate_next_at if allowance.limit == "rate" else None
    dealt = _pick(store, tx, queue, idle, want) if want else []
    if free_at is not None and len(dealt) == want:  # fewer means that no more jobs are ready
        tx.rate_free_at = min(free_at, tx.rate_free_at or free_at)
    if not dealt:
        return []
    if queue.rate is not None:
        spent = allow(queue, 0, len(dealt), tx.now)
        tx.execute("queue.spend_rate", queue=queue.name, rate_next_at=spent.rate_next_at)
    return _deal_out(tx, id, queue, dealt, idle)


def _pick(store: Store, tx: Transaction, queue: Queue, idle: Sequence[Idle], want: int) -> list[tuple[str, PickedJob]]:
    """Lock the best ready jobs of a queue, each with the worker that gets it."""
    picked = store.ready_scans.pick(tx, queue.name, want)
    dealt = _deal(idle, picked) if picked else []
    store.ready_scans.took(queue.name, [job for _, job in dealt])
    return dealt


def _deal_out(
    tx: Transaction,
    id: int,
    queue: Queue,
    dealt: Sequence[tuple[str, PickedJob]],
    idle: Sequence[Idle],
    internal: bool = False,
) -> list[Assignment]:
    """Make each of these its worker's own, in token order."""
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
                _runs(tx, job.id) if job.last_token is not None else (),
                job.isolated > 0,
                None,
                job.source,
                job.trace,
                job.scheduled_for,
            )
        )
        if job.source is not None:
            sources.add(job.source)
    name = internal_queue(queue.name) if internal else queue.name
    takes = [
        {"tokens": by_id(taken), "worker": worker, "orchestrator": id, "now": tx.now}
        for worker, taken in tokens.items()
    ]
    for take in takes:
        tx.prefetch("claim.take_all", **take)
    for take in takes:
        tx.execute("claim.take_all", **take)
    for worker, taken in tokens.items():
        tx.moved(jobs.CLAIM, name, jobs.READY, jobs.ACTIVE, list(taken), worker=worker)
    if sources and not internal:
        source_outcomes.top_up(tx, sources)
    wanting = {each.worker_id: each.whole for each in idle if each.whole}
    return [_made_whole(tx, claim, wanting) for claim in claims] if wanting else claims


def _made_whole(tx: Transaction, claim: Assignment, wanting: dict[str, Kinds]) -> Assignment:
    """The claim with the whole job, where its worker wants it of this kind."""
    if claim.kind not in wanting.get(claim.worker_id, NO_KINDS):
        return claim
    row = tx.one("job.get", id=claim.job_id)
    assert row is not None
    after = tuple(id for id, _ in tx.execute("dependency.of_job", job=claim.job_id))
    children = tuple(id for (id,) in tx.execute("job.children", id=claim.job_id))
    return claim.replace(whole=to_job(row).replace(after=after, children=children))


def _runs(tx: Transaction, job: int) -> tuple[Run, ...]:
    """What the last claims on a job did, oldest first."""
    return tuple(to_run(row) for row in reversed(tx.execute("claim.last_runs", job=job, most=RUNS_TOLD)))


def _mirror(tx: Transaction, finished: dict[str, int], claims: Sequence[Assignment]) -> None:
    """Show in the workers' rows what they finished and what they hold now."""
    first = {claim.worker_id: claim.job_id for claim in reversed(claims)}
    tx.many("worker.exchanged", [(finished.get(worker, 0), job, worker) for worker, job in sorted(first.items())])
    for worker, count in finished.items():
        if worker not in first:
            tx.execute("worker.settled", id=worker, succeeded=count, failed=0, error=None, now=tx.now)


def _deal(idle: Sequence[Idle], picked: Sequence[PickedJob]) -> list[tuple[str, PickedJob]]:
    """Who gets which job: one each, round by round, until all room is used."""
    if any(each.crowd for each in idle):
        return _deal_to_crowds(idle, picked)
    turns: list[str] = []
    for turn in range(max(each.room for each in idle)):
        turns += [each.worker_id for each in idle if each.room > turn]
    return list(zip(turns, picked, strict=False))


def _deal_to_crowds(idle: Sequence[Idle], picked: Sequence[PickedJob]) -> list[tuple[str, PickedJob]]:
    """The same in strict order: one that must be alone waits for a worker with empty hands, and all behind it wait too.

    Otherwise a crowd that is always given more would never have empty hands.
    """
    room, held = {each.worker_id: each.room for each in idle}, {each.worker_id: each.held for each in idle}
    crowds = {each.worker_id for each in idle if each.crowd}
    dealt: list[tuple[str, PickedJob]] = []
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
