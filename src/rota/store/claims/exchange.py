"""The exchange: settle what workers report and claim for those with room, in one transaction (decision 3)."""

from __future__ import annotations

import time

from rota.core import job as jobs
from rota.core.claim import Done, Released, verb_of
from rota.core.errors import Stale
from rota.core.frames.messages import NO_KINDS
from rota.core.orchestrator import LEASE
from rota.core.record import Record
from rota.store import metrics, ownership, source_outcomes
from rota.store.claims import assign
from rota.store.claims import settle as settling
from rota.store.engine import locks
from rota.store.engine.rows import to_job, to_run
from rota.store.maintenance import tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rota.core.claim import Outcome
    from rota.core.frames.assignment import Assignment
    from rota.core.frames.messages import Kinds
    from rota.core.times import Duration
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

    Settled = tuple[int, int, Outcome]  # a job's id, its token, and what became of it
    Checkpoint = tuple[str, int, int]  # JSON text, a job's id, its token

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
    if store.access is not None:  # over HTTP: its workers reach no database, so they cannot read a source either
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
    if assign.total_room(idle) <= most:
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
        ahead = ahead and tx.networked and assign.prefetch_picks(store, tx, report)
        if not tx.execute("orchestrator.advance", **advance):
            raise Stale(f"exchange {number + 1} of orchestrator {id} came late, or it was given up")
        queue_rows = locks.queues(tx, assign.served_queues(report.idle), [job for job, _, _ in outcomes])
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
        claims = assign.claim_for(store, tx, id, report, queue_rows)
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
            else:  # the handler may have settled it in its own transaction, which leaves the worker's row to us
                tx.execute("worker.settled", id=ended.worker_id, succeeded=0, failed=0, error=None, now=tx.now)
    return refused


def _mirror(tx: Transaction, finished: dict[str, int], claims: Sequence[Assignment]) -> None:
    """Show in the workers' rows what they finished and what they run now."""
    first = {claim.worker_id: claim.job_id for claim in reversed(claims)}
    tx.many("worker.exchanged", [(finished.get(worker, 0), job, worker) for worker, job in sorted(first.items())])
    for worker, count in finished.items():
        if worker not in first:
            tx.execute("worker.settled", id=worker, succeeded=count, failed=0, error=None, now=tx.now)
