"""The event log, replayed from its beginning: the state of every job, and how long work waited."""

from __future__ import annotations

from bisect import insort
from itertools import accumulate
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

from rota.core import job as jobs
from rota.core import queue as queues
from rota.core import slot as slots
from rota.core import worker as workers
from rota.core.event import JobMoved, QueueChanged, SlotChanged, WorkerChanged
from rota.core.record import Record
from rota.core.state_machine import allowed
from rota.lab.chaos.ledger_reader import Injected
from rota.lab.chaos.plan import CRASH, FREEZE_CREW, KILL_API, OPERATOR_FAULTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rota.core.event import Event, Fact
    from rota.core.times import Duration, Instant

PROGRESS = (jobs.CLAIM, jobs.FINISH, jobs.FAIL)


class Served(Record):
    """A queue. `behind_api`: its workers reach only an API. `limit`: how many of its jobs may run at once."""

    name: str
    behind_api: bool = False
    limit: int | None = None


class Replay:
    """Takes in the events of one queue and its pool, in the order of their numbers, and the injected faults.

    Args:
        priorities: The priority of each job.
        queue: The queue.
        at_once: For how long transactions may run side by side, unaware of what the others made ready.
        touched: When jobs were added that wait for it, for each job: until such a transaction ends, the job is locked.
        visitors: Workers that choose their job themselves.
        crews: The crew of each slot.
    """

    def __init__(
        self,
        priorities: dict[int, int],
        queue: Served,
        at_once: Duration = 0,
        touched: Mapping[int, Sequence[Instant]] = MappingProxyType({}),
        visitors: Collection[str] = (),
        crews: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._queue = queue.name
        self._crews = crews
        self._behind_api = queue.behind_api
        self._limit = queue.limit
        self.states: dict[int, str] = {}
        self.finishes: dict[int, int] = {}
        self.wrong_moves: list[str] = []
        self._out_of_order: list[str] = []
        self._passed_over: dict[int, tuple[Instant, str]] = {}
        self.longest_wait: Duration = 0
        self.longest_stall: Duration = 0
        self._priorities = priorities
        self._at_once = at_once
        self._touched = touched
        self._visitors = visitors
        self._is_paused = False
        self._ready: list[tuple[int, int]] = []
        self._ready_since: dict[int, Instant] = {}
        self._holders: dict[int, str] = {}
        self._up: dict[str, str] = {}
        self._waiting_since: Instant | None = None
        self._still_since: Instant | None = None
        self._is_away = False
        self._frozen_until: Instant | None = None

    def play(self, events: Sequence[Event], faults: Iterable[Injected]) -> Replay:
        """Replay events together with faults, in the order of the store's clock."""
        # Of concurrent transactions, the later one may commit first; the replay's time does not go back for that.
        begun = accumulate((event.at for event in events), max)
        moments: list[tuple[Instant, Event | Injected]] = [(fault.store_at, fault) for fault in faults]
        moments += zip(begun, events, strict=True)
        for at, moment in sorted(moments, key=itemgetter(0)):
            if isinstance(moment, Injected):
                self._fault(moment, at)
            else:
                self._event(moment, at)
        return self

    @property
    def out_of_order(self) -> list[str]:
        """Texts about the claims that passed over a job that was to be claimed first."""
        return [*self._out_of_order, *(text for _, text in self._passed_over.values())]

    def add(self, other: Replay) -> None:
        """Add the results of another queue's replay."""
        self.states |= other.states
        self.finishes |= other.finishes
        self.wrong_moves += other.wrong_moves
        self._out_of_order += other.out_of_order
        self.longest_wait = max(self.longest_wait, other.longest_wait)
        self.longest_stall = max(self.longest_stall, other.longest_stall)

    def _event(self, event: Event, at: Instant) -> None:
        self._measure(at)
        progress = claimed = False
        facts = [fact for fact in event.facts if self._is_mine(fact)]
        for place, fact in enumerate(facts):
            match fact:
                case JobMoved(verb, _, old, str(new), ids, details):
                    for id in ids:
                        self._move(verb, old, new, id, details, at)
                    progress, claimed = progress or verb in PROGRESS, claimed or verb == jobs.CLAIM
                    # An exchange may claim for several workers, one fact each: judge its claims together.
                    if verb == jobs.CLAIM and not any(map(_is_claim, facts[place + 1 : place + 2])):
                        self._check_order(event, facts[: place + 1])
                case SlotChanged("move", name, {"status": status, "worker": worker}):
                    self._up.pop(name, None)
                    if status == slots.UP:
                        self._up[name] = worker
                case QueueChanged("pause" | "resume" as verb, self._queue | queues.ALL):
                    self._is_paused = verb == "pause"
                case WorkerChanged(workers.DIE | workers.LEAVE, worker):
                    self._forget(worker)
        if claimed:
            self._waiting_since = None
        if progress:
            self._still_since, self._is_away = None, False
            if self._frozen_until is not None and at >= self._frozen_until:
                self._frozen_until = None
        self._begin_to_wait(at)

    def _fault(self, fault: Injected, at: Instant) -> None:
        """Treat the workers that were hit as unhealthy; if it was an orchestrator, all workers of its crew.

        Without its API a crew waits, for a time that is not measured. So does every crew without its server, or while
        a process is frozen that may hold the write lock.
        """
        self._measure(at)
        if fault.kind in OPERATOR_FAULTS:
            return
        away = fault.kind in (CRASH, FREEZE_CREW) or (fault.kind == KILL_API and self._behind_api)
        self._is_away = self._is_away or away
        if fault.kind == FREEZE_CREW:  # the wait that follows is longer than a lease; the latencies have it separately
            self._frozen_until = at + fault.lasts
        if fault.crew is not None:
            self._up = {slot: worker for slot, worker in self._up.items() if self._crews.get(slot) != fault.crew}
        for worker in fault.workers:
            self._forget(worker)
        self._begin_to_wait(at)

    def _forget(self, worker: str) -> None:
        self._up = {name: other for name, other in self._up.items() if other != worker}

    def _move(self, verb: str, old: str | None, new: str, id: int, details: Mapping[str, Any], at: Instant) -> None:
        if self.states.get(id) != old:
            self.wrong_moves.append(f"job {id} was {self.states.get(id)}, and {verb} tells of {old}")
        if new not in allowed(jobs.MOVES, old, verb):
            self.wrong_moves.append(f"{verb} led job {id} from {old} to {new}")
        if self.states.get(id) == jobs.READY:
            self._ready.remove(self._rank(id))
        if new == jobs.READY:
            insort(self._ready, self._rank(id))
            self._ready_since[id] = at
        if verb == jobs.CLAIM:
            self._holders[id] = details.get("worker", "")
            passed_at, text = self._passed_over.pop(id, (at, ""))
            if at - passed_at >= self._at_once and text:
                self._out_of_order.append(text)
        elif old == jobs.ACTIVE:
            self._holders.pop(id, None)
        if verb == jobs.FINISH:
            self.finishes[id] = self.finishes.get(id, 0) + 1
        self.states[id] = new

    def _rank(self, id: int) -> tuple[int, int]:
        """The order of claims: higher priorities first, then older jobs."""
        return -self._priorities.get(id, 0), id

    def _is_mine(self, fact: Fact) -> bool:
        """Return whether a fact is about this queue's jobs, a slot of its pool, or any worker."""
        match fact:
            case JobMoved():
                return fact.queue == self._queue
            case SlotChanged():
                return fact.subject.rpartition(":")[0] == f"worker:{self._queue}"
            case _:
                return True

    def _check_order(self, event: Event, facts: Sequence[Fact]) -> None:
        """Note the ready jobs that should have been claimed before these, unless a concurrent transaction hid them."""
        claims = [fact for fact in facts if _is_claim(fact) and fact.details.get("worker") not in self._visitors]
        claimed = [id for claim in claims for id in claim.ids]
        if not claimed:
            return
        worst = max(map(self._rank, claimed))
        for rank in self._ready:
            if rank >= worst:
                return
            if not self._may_be_hidden(rank[1], event.at):
                text = f"job {worst[1]} was claimed before job {rank[1]} (event {event.cursor})"
                self._passed_over.setdefault(rank[1], (event.at, text))

    def _may_be_hidden(self, id: int, at: Instant) -> bool:
        """Return whether a concurrent transaction may have hidden this job from a claim of that moment."""
        if not self._at_once:
            return False
        is_new = self._ready_since[id] > at - self._at_once
        return is_new or any(abs(at - touched) < self._at_once for touched in self._touched.get(id, ()))

    def _begin_to_wait(self, at: Instant) -> None:
        idle = set(self._up.values()) - set(self._holders.values())
        full = self._limit is not None and len(self._holders) >= self._limit
        if self._is_away or self._is_paused or full or self._frozen_until or not (self._ready and idle):
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = at
        if self._is_paused or self._frozen_until or not (self._ready or self._holders):
            self._still_since = None
        elif self._still_since is None:
            self._still_since = at

    def _measure(self, at: Instant) -> None:
        if self._waiting_since is not None:
            self.longest_wait = max(self.longest_wait, at - self._waiting_since)
        if self._still_since is not None:
            self.longest_stall = max(self.longest_stall, at - self._still_since)


def _is_claim(fact: Fact) -> TypeGuard[JobMoved]:
    return isinstance(fact, JobMoved) and fact.verb == jobs.CLAIM
