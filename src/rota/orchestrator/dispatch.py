"""Dispatch: exchange outcomes for claims, one exchange at a time, and decide how many jobs a worker is handed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rota.core import slot
from rota.core.errors import RotaError, Stale
from rota.core.queue import DEFAULT
from rota.core.times import MILLISECOND
from rota.orchestrator import store_thread as urgency
from rota.orchestrator.maintenance import NEVER, now
from rota.store.claims.exchange import MOST_OVER_HTTP, Exchange, Idle, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.times import Duration, Instant
    from rota.orchestrator.pool_backoff import PoolBackoff
    from rota.orchestrator.slot import SupervisedSlot
    from rota.orchestrator.store_thread import StoreThread
    from rota.orchestrator.worker_process import WorkerProcess
    from rota.store.claims.exchange import Checkpoint, Settled
    from rota.store.store import Store

SOONEST_CLAIM: Duration = 10 * MILLISECOND  # well within the burst of a rate, so that faster rates come in batches
LARGEST_COUNT = 128
SPAN: Duration = 30 * MILLISECOND
STUCK: Duration = 4 * SPAN
LARGEST_WINDOW = 256 * 1024


class Holdings:
    """The claims of this orchestrator, as the store thread has seen them committed; only that thread uses it.

    Each committed answer enters it before the next transaction begins. After a lost answer, an exchange that carries
    all of it resynchronises first: the store takes back whatever else it believes to be held here.
    """

    def __init__(self, id: int) -> None:
        self._id = id
        self._number = 0
        self._tokens: set[int] = set()
        self._is_sure = True
        self._served = ""

    def exchange(
        self,
        store: Store,
        outcomes: Sequence[Settled],
        idle: Sequence[Idle],
        checkpoints: Sequence[Checkpoint],
        fills: bool = True,
    ) -> Exchange:
        """Settle and claim; after a lost answer, find out first how far the store has come."""
        if not self._is_sure:
            self._find_out(store)
        self._is_sure = False
        settled = {token for _, token, _ in outcomes}
        report = Report(outcomes, idle, checkpoints, served=self._served, fills=fills)
        answer = store.orchestrators.exchange(self._id, self._number, report)
        self._is_sure = True
        self._number = answer.number
        self._tokens -= settled
        self._tokens |= {claim.token for claim in answer.claims}
        spare = {each.worker_id for each in idle if each.queue == DEFAULT}
        served = [claim.queue for claim in answer.claims if claim.worker_id in spare]
        self._served = served[-1] if served else self._served
        return answer

    def _find_out(self, store: Store) -> None:
        """Give back what is unknown here. It is an exchange of its own: short, for links that break again and again.

        The exchange whose answer was lost may still be under way and come first: then the number has moved, and this is
        tried again. If it has not, this orchestrator was given up.
        """
        tried = None
        while not self._is_sure:
            number = store.orchestrators.number(self._id)
            report = Report(holdings=frozenset(self._tokens))
            try:
                self._number = store.orchestrators.exchange(self._id, number, report).number
                self._is_sure = True
            except Stale:
                if number == tried:
                    raise
                tried = number

    def drop(self, tokens: Iterable[int]) -> None:
        """Forget claims that went back with the death of their worker."""
        self._tokens.difference_update(tokens)


class Dispatch:
    """The outcomes that one orchestrator has to settle, and whether there may be more to claim.

    `fills`: a worker declared a source, so there is someone to fill its queue.
    """

    def __init__(
        self,
        store_thread: StoreThread,
        deliver: Callable[[Exchange, Sequence[tuple[str, Settled]]], None],
        lost: Callable[[RotaError], None],
        starved: Callable[[], None],
        pool_backoff: PoolBackoff,
    ) -> None:
        self._store_thread = store_thread
        self._deliver = deliver
        self._lost = lost
        self._starved = starved
        self.pool_backoff = pool_backoff
        self._outcomes: deque[tuple[str, Settled]] = deque()
        self._carried: deque[tuple[str, Settled]] = deque()
        self._unacknowledged: list[tuple[str, Settled]] = []
        self._dying: dict[str, set[int]] = {}
        self._checkpoints: dict[int, Checkpoint] = {}  # by token: only the last one counts
        self._carried_checkpoints: list[Checkpoint] = []
        self._is_under_way = False
        self._wants_work = True
        self._rate_free_at: Instant = NEVER
        self._try_at: Instant = NEVER
        self.fills = False
        self.holdings = Holdings(0)

    def begin(self, id: int) -> None:
        """Work under this orchestrator's number, and settle first what the one before could not (decision 12)."""
        self.holdings = Holdings(id)
        self._wants_work = True
        self._outcomes.extendleft(reversed(self._unacknowledged))
        self._unacknowledged = []

    def report(self, worker: str, settled: Settled) -> None:
        """Queue the outcome of a job; it is settled with the next exchange."""
        self._outcomes.append((worker, settled))

    def keep(self, checkpoint: Checkpoint) -> None:
        """Queue a checkpoint that a handler keeps for its next attempt."""
        self._checkpoints[checkpoint[2]] = checkpoint

    def take(self, worker: str) -> list[Settled]:
        """Take the reports of a worker that are not known to be settled, to be settled with its death.

        Those of an exchange under way are among them, because a death overtakes it; settling twice changes nothing.
        """
        mine = [settled for by, settled in (*self._carried, *self._outcomes) if by == worker]
        self._outcomes = deque((by, settled) for by, settled in self._outcomes if by != worker)
        return mine

    def take_checkpoints(self, tokens: set[int]) -> list[Checkpoint]:
        """Take the checkpoints of these claims that are not known to be stored, to be stored with the death."""
        mine = [each for each in (*self._carried_checkpoints, *self._checkpoints.values()) if each[2] in tokens]
        self._checkpoints = {token: each for token, each in self._checkpoints.items() if token not in tokens}
        return mine

    def wake(self) -> None:
        """Look for work with the next turn: there may be something to claim."""
        self._wants_work = True

    @property
    def unsettled(self) -> list[int]:
        """The tokens of claims whose end is not stored yet: reported, or held by a worker that is gone."""
        reported = {token for _, (_, token, _) in (*self._carried, *self._outcomes)}
        return sorted(reported.union(*self._dying.values()))

    def death_pending(self, worker: str, tokens: set[int]) -> None:
        """Note that these claims end with the death of their worker, once that is recorded."""
        self._dying[worker] = tokens

    def death_recorded(self, worker: str) -> None:
        """Note that a worker's death is recorded."""
        self._dying.pop(worker, None)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to settle and no exchange is under way."""
        return not self._outcomes and not self._is_under_way

    @property
    def due(self) -> Instant:
        """When a rate allows the next claim to a worker that was left without one, or a pool may try a job again."""
        return NEVER if self._is_under_way else min(self._rate_free_at, self._try_at)

    def turn(self, idle: Sequence[Idle], at: Instant) -> None:
        """Begin an exchange if there is something to settle, or perhaps something to claim."""
        if at >= self._rate_free_at:
            self._rate_free_at, self._wants_work = NEVER, True
        if at >= self._try_at:
            self._wants_work = True
        self._try_at = self.pool_backoff.due(at)
        idle = self.pool_backoff.admit(idle, at)
        if self._is_under_way or not (self._outcomes or self._checkpoints or (self._wants_work and idle)):
            return
        brought = self._carried = self._outcomes
        self._outcomes = deque()
        checkpoints = self._carried_checkpoints = list(self._checkpoints.values())
        self._checkpoints = {}
        self._is_under_way, self._wants_work = True, False
        outcomes = [settled for _, settled in brought]
        room = sum(each.room for each in idle)
        holdings, fills = self.holdings, self.fills
        self._store_thread.ask(
            urgency.WORK,
            lambda store: holdings.exchange(store, outcomes, idle, checkpoints, fills),
            lambda answer: self._answered(answer, room, brought),
        )

    def _answered(self, answer: Exchange | RotaError, room: int, brought: Sequence[tuple[str, Settled]]) -> None:
        self._is_under_way = False
        self._carried, self._carried_checkpoints = deque(), []
        if isinstance(answer, RotaError):
            self._unacknowledged += brought
            self._lost(answer)
            return
        # Over HTTP an answer has at most MOST_OVER_HTTP, an equal share for each worker: then there may be more.
        asked = min(room, MOST_OVER_HTTP // 2)
        self._wants_work = self._wants_work or len(answer.claims) >= max(1, asked)
        wait = answer.rate_free_in
        self._rate_free_at = NEVER if wait is None else now() + max(SOONEST_CLAIM, wait)
        self._deliver(answer, brought)
        if len(answer.claims) < room and (answer.claims or brought):
            # A worker stays idle: ask when there will be more. If nothing changed, the last poll said so.
            self._starved()


def usual_after(usual: Duration, took: Duration) -> Duration:
    """Return how long jobs usually take, after one more: a long one counts at once, a short one bit by bit."""
    return took if took > usual else (3 * usual + took) // 4


def window(usual: Duration) -> int:
    """Return how many jobs fit in a few tens of milliseconds, and at least one."""
    return max(1, min(LARGEST_COUNT, SPAN // max(1, usual)))


def idle(places: Iterable[SupervisedSlot], at: Instant) -> list[Idle]:
    """Return the workers with room: for two windows of short jobs, one long job, or as many as they run at a time."""
    found = []
    for place in places:
        child = place.child
        if (
            child is None
            or not place.takes_jobs
            or place.state != slot.UP
            or child.stopping
            or child.ending is not None
        ):
            continue
        room, held = _room(child, at), len(child.held)
        if room > 0:
            found.append(Idle(child.worker_id, place.queue, room, held, child.concurrency > 1, child.wants_whole))
    return found


def _room(child: WorkerProcess, at: Instant) -> int:
    """Return how many more jobs a worker takes now.

    One that runs several at a time takes no window, and nothing beside an isolated job. No job waits behind one that
    takes long, whatever those before it took.
    """
    size, held = min(window(child.usual), LARGEST_WINDOW // child.usual_bytes or 1), len(child.held)
    if child.concurrency > 1:
        return 0 if any(each.isolated for each in child.held) else child.concurrency - held
    if held and at - child.job_started_at >= STUCK:
        return 0
    return 1 - held if size == 1 else 2 * size - held if held <= size else 0
