"""One change of the store: its statements, the moves that they make, and what is announced once it is committed."""

from __future__ import annotations

import sys
import time
from bisect import bisect_left

from rota.core import claim, job, orchestrator, slot, worker
from rota.core.errors import Conflict, Contended, Denied
from rota.core.event import JobMoved, change, encode
from rota.core.source import is_internal
from rota.core.state_machine import ImpossibleMove, check
from rota.core.times import MILLISECOND, MINUTE, SECOND
from rota.store.engine.rows import scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, ParamSpec, TypeVar

    from rota.core.access import AccessToken
    from rota.core.event import Fact
    from rota.core.queue import Queue
    from rota.core.state_machine import Moves
    from rota.core.times import Duration, Instant
    from rota.store.engine.database import Database
    from rota.store.engine.rows import Row

    P = ParamSpec("P")
    R = TypeVar("R")

SHARDS = 16  # rows per counter, so that concurrent writers rarely wait for each other (decision 14)
ATTEMPTS = 20
_PAUSE = 0.002
RUN, PICKUP = "run", "pickup"  # the durations that histograms count
BOUNDS = (
    *(n * MILLISECOND for n in (1, 5, 10, 50, 100, 250, 500)),
    *(n * SECOND for n in (1, 5, 10, 30)),
    *(n * MINUTE for n in (1, 5, 15, 60)),
)
_BUSY_OR_IDLE = (worker.IDLE, worker.BUSY)
_WORKING = (worker.STARTING, *_BUSY_OR_IDLE)
_CLAIM = (
    (worker.MOVES, worker.CLAIM, _WORKING, (worker.BUSY,)),
    (worker.MOVES, worker.CLAIM, (worker.STOPPING,), (worker.STOPPING,)),
)
# The moves of slots, workers and orchestrators that statements make by themselves, whichever rows they meet: the
# table, the verb, the states before and the states after. They are checked whenever such a statement runs. Moves of
# jobs and claims are checked by `moved`, and moves between states that are only known at run time by `check_move`.
STATEMENT_MOVES: dict[str, tuple[tuple[Moves, str, tuple[str | None, ...], tuple[str, ...]], ...]] = {
    "slot.make": ((slot.MOVES, slot.MAKE, (None,), (slot.EMPTY,)),),
    "slot.come_up": ((slot.MOVES, slot.HEALTHY, (slot.STARTING,), (slot.UP,)),),
    "slot.stop": ((slot.MOVES, slot.STOP, (slot.STARTING, slot.UP), (slot.STOPPING,)),),
    "slot.empty": ((slot.MOVES, slot.LEAVE, (*slot.OCCUPIED, slot.EMPTY, slot.BACKOFF), (slot.EMPTY,)),),
    "orphan.empty_slot": ((slot.MOVES, slot.GONE, slot.OCCUPIED, (slot.EMPTY,)),),
    "worker.insert": ((worker.MOVES, worker.REGISTER, (None,), (worker.STARTING, worker.IDLE)),),
    "worker.ready": ((worker.MOVES, worker.READY, (worker.STARTING,), (worker.IDLE,)),),
    "worker.revive": ((worker.MOVES, worker.HEARTBEAT, (worker.STOPPED, worker.DEAD), (worker.IDLE,)),),
    "worker.claimed": _CLAIM,
    "worker.exchanged": _CLAIM,
    "worker.settled": ((worker.MOVES, worker.SETTLE, _BUSY_OR_IDLE, _BUSY_OR_IDLE),),
    "worker.stopping": ((worker.MOVES, worker.STOP, _WORKING, (worker.STOPPING,)),),
    "worker.end": (
        (worker.MOVES, worker.LEAVE, worker.LIVE, (worker.STOPPED,)),
        (worker.MOVES, worker.DIE, worker.LIVE, (worker.DEAD,)),
    ),
    "orchestrator.join": ((orchestrator.MOVES, orchestrator.START, (None,), (orchestrator.STARTING,)),),
    "orchestrator.end": tuple(
        (orchestrator.MOVES, verb, orchestrator.LIVE, (orchestrator.STOPPED,))
        for verb in (orchestrator.END, orchestrator.LAPSE, orchestrator.TAKE_OVER)
    ),
}


def check_statement(name: str) -> None:
    """Check every move that a statement makes by itself against its table."""
    for moves, verb, before, after in STATEMENT_MOVES[name]:
        for old in before:
            for new in after:
                check(moves, old, verb, new)


def bucket(duration: Duration) -> int:
    """Return the index of the first bound that a duration does not exceed, or one beyond the last."""
    return bisect_left(BOUNDS, duration)


def retry_conflicts(change: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method that is one transaction: repeat it as a whole when the database undid it for a conflict.

    Each attempt waits a little longer than the last. A change that may have been committed is never repeated.
    """

    def retried(*args: P.args, **kwargs: P.kwargs) -> R:
        for conflicts in range(ATTEMPTS - 1):
            try:
                return change(*args, **kwargs)
            except Contended:
                jitter = time.monotonic_ns() // 1000 % 100 / 100
                time.sleep(_PAUSE * (conflicts + 1) * (1 + jitter))
        return change(*args, **kwargs)

    retried.__name__, retried.__doc__ = change.__name__, change.__doc__
    return retried


class Transaction:
    """Collects facts and counts while statements run; writes them as one event row and a few counters at the end.

    `exclusive`: nobody else writes until this is whole. Where others do, `rota.store.engine.locks` keeps rows still.
    `borrowed`: it is part of a caller's transaction, so it keeps nothing that a crew would have to wait for.
    `networked`: messages take time.
    `access`: the access token that it is made for, over HTTP; one that is revoked by now changes nothing.
    """

    def __init__(
        self, database: Database, actor: str, exclusive: bool = False, access: AccessToken | None = None
    ) -> None:
        self.actor = actor
        self._access = access
        self.something_to_claim = False
        self.rate_free_at: Instant | None = None  # when a rate that held a claim back allows the next one
        self._brings_jobs = False
        self.exclusive = exclusive or not database.locks_rows
        self.borrowed = database.is_borrowed
        self.networked = database.is_networked
        self.held_queues: set[str] = set()
        self.unlimited: dict[str, Queue] = {}
        self._database = database
        self._hold = database.write(exclusive)
        self._moment: tuple[Instant, Instant] | None = None
        self.clock: dict[str, Instant | None] = {}
        self._facts: list[Fact] = []
        self._tally: dict[tuple[str, str], int] = {}
        self._metrics: dict[tuple[str, str, str, int], tuple[int, Duration]] = {}

    def __enter__(self) -> Transaction:
        self._hold.__enter__()
        try:
            self._refuse_revoked()
        except BaseException as problem:
            self._hold.__exit__(type(problem), problem, problem.__traceback__)
            raise
        self.clock = self._database.clock()
        return self

    def _refuse_revoked(self) -> None:
        """Refuse a change for a token that was revoked while the change waited for its turn."""
        if self._access is not None and self.one("token.revoked", id=self._access.id) != (None,):
            raise Denied(f"token {self._access.name!r} was revoked")

    @property
    def now(self) -> Instant:
        """When it began; where messages take time, asking for it takes the answer to what was sent until now."""
        return self._began()[0]

    @property
    def wall(self) -> Instant:
        return self._began()[1]

    def _began(self) -> tuple[Instant, Instant]:
        if self._moment is None:
            self._moment = self._database.moment()
        return self._moment

    def __exit__(self, kind: type[BaseException] | None, *problem: Any) -> None:
        if kind is None:
            try:
                self._flush()
                if self._brings_jobs:
                    self._database.notify_early()
                sys.audit("rota.store.commit")
            except BaseException as failure:
                self._hold.__exit__(type(failure), failure, failure.__traceback__)
                raise
        self._hold.__exit__(kind, *problem)
        if kind is not None:
            return
        sys.audit("rota.store.committed")
        if self.something_to_claim or self._brings_jobs:
            self._database.notify(notified_early=not self.something_to_claim)
        elif self._facts:
            self._database.notify(events_only=True)

    def execute(self, statement: str, /, **params: Any) -> list[Row]:
        if statement in STATEMENT_MOVES:
            check_statement(statement)
        return self._database.execute(statement, params)

    def prefetch(self, statement: str, /, **params: Any) -> None:
        """Ask now what will be executed soon, so that the answer comes with the next one; the moment asked is now."""
        self._database.prefetch(statement, params)

    def one(self, statement: str, /, **params: Any) -> Row | None:
        """The first row, or None."""
        rows = self.execute(statement, **params)
        return rows[0] if rows else None

    def many(self, name: str, rows: Iterable[Row]) -> list[Row]:
        if name in STATEMENT_MOVES:
            check_statement(name)
        return self._database.many(name, rows)

    def draw(self, name: str) -> int:
        """Draw a number that nobody else gets."""
        number: int = scalar(self.execute("number.draw", name=name))
        return number

    def draw_many(self, name: str, count: int) -> list[int]:
        """Draw job ids or tokens that nobody else gets, in order."""
        stretches = self.execute("number.draw_many", name=name, count=count)
        return [number for first, last in stretches for number in range(first, last + 1)]

    def moved(self, verb: str, queue: str, old: str | None, new: str, ids: Sequence[int], **details: object) -> None:
        """Record that jobs of one queue changed state: check the move against the tables, and count it.

        A job that becomes or stops being active moves its claim too.
        """
        check(job.MOVES, old, verb, new)
        if new == job.ACTIVE:
            check(claim.MOVES, None, verb, claim.ACTIVE)
        elif old == job.ACTIVE:
            claim.ended_as(verb)
        if old is not None:
            self._tally[queue, old] = self._tally.get((queue, old), 0) - len(ids)
        self._tally[queue, new] = self._tally.get((queue, new), 0) + len(ids)
        if new in (job.READY, job.SCHEDULED):
            # A scheduled job may be due before any orchestrator would poll again.
            self._brings_jobs = True
        if is_internal(queue):
            # The event log does not tell of fillers, only of what they add (decision 16).
            return
        self._facts.append(JobMoved(verb, queue, old, new, ids, details))

    def check_move(self, moves: Moves, old: str | None, verb: str, new: str) -> None:
        """Check a move between states that are known only now, of a slot or an orchestrator.

        Raises:
            ImpossibleMove: The table does not have it: a bug.
            Conflict: The table does not have it, and a program asked for it over HTTP, which may ask for anything.
        """
        try:
            check(moves, old, verb, new)
        except ImpossibleMove as problem:
            if self._access is None:
                raise
            raise Conflict(str(problem)) from None

    def pruned(self, queue: str, status: str, ids: Sequence[int]) -> None:
        """Record that final jobs were removed from history."""
        self._tally[queue, status] = self._tally.get((queue, status), 0) - len(ids)
        if not is_internal(queue):
            self._facts.append(JobMoved("prune", queue, status, None, ids))

    def changed(self, noun: str, verb: str, subject: str, /, **details: object) -> None:
        """Record that something else changed: a worker, a queue, an orchestrator."""
        self._facts.append(change(noun, verb, subject, details))

    def ran(self, queue: str, verb: str, took: Duration, waited: Duration | None, n: int = 1) -> None:
        """Count `n` equal claims that ended. `waited`: how long a job had waited for its claim, if it was the first."""
        self._measure(RUN, queue, verb, took, n)
        if waited is not None:
            self._measure(PICKUP, queue, "", waited, n)

    def _measure(self, name: str, queue: str, label: str, duration: Duration, n: int) -> None:
        key = name, queue, label, bucket(duration)
        counted, total = self._metrics.get(key, (0, 0))
        self._metrics[key] = counted + n, total + n * duration

    def running(self, queue: str) -> int:
        """How many jobs of a queue are active, this transaction's own changes included."""
        return self.count(queue, job.ACTIVE)

    def count(self, queue: str, *states: str) -> int:
        """How many jobs of a queue are in these states, this transaction's own changes included."""
        rows: list[Row] = self.execute("tally.of_queue", queue=queue)
        kept: int = sum(n for status, n in rows if status in states)
        return kept + sum(self._tally.get((queue, status), 0) for status in states)

    def _flush(self) -> None:
        """Write the counts and the event; the last thing before the commit."""
        counts = [(queue, status, change) for (queue, status), change in sorted(self._tally.items()) if change]
        if counts:
            self.many("tally.add", counts)
        if self._metrics:
            # In one order, as above, so that concurrent transactions do not wait for each other in a circle.
            self.many("metric.add", [(*key, *count) for key, count in sorted(self._metrics.items())])
        if self._facts:
            self.execute("event.append", at=self.now, actor=self.actor, facts=encode(self._facts))
