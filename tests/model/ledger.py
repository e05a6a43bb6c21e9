"""A small model of the store, kept in dicts: what was accepted, who holds what, and what the log has told so far.

It learns of claims and settlements from the answers that a program gets, and of everything else from the log. Each
check names the invariant that it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rota.core import job as jobs
from rota.core.event import JobMoved, OrchestratorChanged, QueueChanged
from rota.core.state_machine import allowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.event import Event
    from tests.support.clock import FakeClock

ENDINGS = (jobs.FINISH, jobs.FAIL, jobs.SNOOZE, jobs.RELEASE, jobs.EXPIRE, jobs.DIE, jobs.CANCEL)
ALL = "*"


@dataclass
class Held:
    """A live claim as its holder knows it; `lease` None for a watched worker's."""

    token: int
    worker: str
    lease: int | None


@dataclass
class Ledger:
    clock: FakeClock
    interval: int
    states: dict[int, str] = field(default_factory=dict)
    generations: dict[int, int] = field(default_factory=dict)
    queues: dict[int, str] = field(default_factory=dict)
    needs: dict[int, set[int]] = field(default_factory=dict)
    holders: dict[int, Held] = field(default_factory=dict)
    ended: dict[int, str] = field(default_factory=dict)
    claims: list[tuple[int, Held]] = field(default_factory=list)
    expected_finishes: set[int] = field(default_factory=set)
    finished: set[tuple[int, int]] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)
    at_once: dict[str, int | None] = field(default_factory=dict)
    beats: dict[str, int] = field(default_factory=dict)
    buried: set[str] = field(default_factory=set)
    crew_lease: int = 0
    crew_gone: bool = True
    last_token: int = 0
    cursor: str = "0"
    read_before: set[str] = field(default_factory=set)

    def accepted(self, id: int, after: list[int]) -> None:
        """A job was acknowledged."""
        self.needs.setdefault(id, set(after))
        self.generations.setdefault(id, 1)

    def claimed(self, job: int, token: int, worker: str, lease: int | None) -> None:
        """A claim was answered. I2: tokens strictly increase."""
        assert token > self.last_token, f"I2: token {token} after {self.last_token}"
        self.last_token = token
        self.holders[job] = Held(token, worker, lease)
        self.claims.append((job, self.holders[job]))

    def is_current(self, job: int, token: int) -> bool:
        held = self.holders.get(job)
        return held is not None and held.token == token

    def read(self, event: Event) -> None:
        """Take in one event. I23: no cursor comes twice."""
        assert event.cursor not in self.read_before, f"I23: cursor {event.cursor} again"
        self.read_before.add(event.cursor)
        self.cursor = event.cursor
        for fact in event.facts:
            match fact:
                case JobMoved(verb, queue, old, str(new), ids, details):
                    for id in ids:
                        self._move(verb, queue, old, new, id, details)
                case QueueChanged("pause", name):
                    self.paused.add(name)
                case QueueChanged("resume", name):
                    self.paused.discard(name)
                case OrchestratorChanged("lapse"):
                    # I11: nothing lapses before the clock says so.
                    assert self.clock.now() >= self.crew_lease, "I11: an orchestrator's lease lapsed early"
                    self.crew_gone = True
                case _:
                    pass

    def _move(self, verb: str, queue: str, old: str | None, new: str, id: int, details: Mapping[str, Any]) -> None:
        # I4: only moves of the table, and final states absorb but for a retry. I23: none missing, none twice.
        assert self.states.get(id) == old, f"I23: job {id} is {self.states.get(id)}, and {verb} tells of {old}"
        assert new in allowed(jobs.MOVES, old, verb), f"I4: {verb} led job {id} from {old} to {new}"
        assert old not in jobs.FINAL or verb == jobs.RETRY, f"I4: {verb} moved job {id}, which was {old}"
        self.states[id], self.queues[id] = new, queue
        if verb == jobs.CLAIM:
            self._check_claim(queue, id)
        elif old == jobs.ACTIVE:
            self._end(verb, id, details)
        if verb == jobs.RETRY:
            self.generations[id] += 1
        if new == jobs.READY:
            # I4 too, as design.md says it: a job is never blindly made ready.
            still = [need for need in self.needs[id] if self.states[need] != jobs.DONE]
            assert not still, f"I4: {verb} made job {id} ready, which waits for {still}"

    def _check_claim(self, queue: str, id: int) -> None:
        # I10: no claim from a paused queue.
        assert not {queue, ALL} & self.paused, f"I10: job {id} was claimed from paused queue {queue}"
        running = sum(self.queues[each] == queue for each, state in self.states.items() if state == jobs.ACTIVE)
        most = self.at_once.get(queue)
        assert most is None or running <= most, f"job {id} is the {running}th at once in {queue}, of at most {most}"
        # I1: at most one live claim per job.
        assert id not in self.holders, f"I1: job {id} was claimed while {self.holders.get(id)} holds it"

    def _end(self, verb: str, id: int, details: Mapping[str, Any]) -> None:
        assert verb in ENDINGS, f"I4: {verb} ended a claim"
        held = self.holders.pop(id)
        # One that was set aside for its kind leaves no run, so that saying it again is refused.
        self.ended[held.token] = "set aside" if details.get("reason") == jobs.UNKNOWN_KIND else verb
        # I2: what ended is the claim that was current.
        assert details.get("token", held.token) == held.token, (
            f"I2: {verb} of token {details['token']}, not {held.token}"
        )
        now = self.clock.now()
        if verb == jobs.EXPIRE:
            # I11: no lease lapses before the store's clock says so.
            assert held.lease is not None and now >= held.lease, f"I11: job {id} expired {held.lease} at {now}"
        if verb == jobs.DIE:
            self._check_death(held, now)
        if verb == jobs.FINISH:
            # I6: at most one finish per job and generation, and by its holder.
            assert id in self.expected_finishes, f"I6: job {id} was finished, and not by its holder"
            this = (id, self.generations[id])
            assert this not in self.finished, f"I6: job {id} was finished twice in generation {this[1]}"
            self.finished.add(this)

    def _check_death(self, held: Held, now: int) -> None:
        # I11: nobody dies of silence before the clock says so.
        if held.worker in self.buried:
            return
        if held.lease is None:
            assert now >= self.crew_lease, "I11: a watched worker was lost before its orchestrator's lease ended"
        else:
            assert now >= self.beats[held.worker] + 2 * self.interval, f"I11: {held.worker} was buried early"
