"""The invariants that can be judged while the storm goes on: each check takes in what is new since the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import worker as workers
from rota.core.event import WorkerChanged
from rota.lab.chaos.plan import PLANNED
from rota.lab.chaos.replay import Replay, Served
from rota.lab.chaos.snapshot import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.core.event import Event
    from rota.lab.chaos.ledger_reader import Execution, Ledger, Life
    from rota.lab.chaos.snapshot import Sample

JUDGED = ("I1", "I2", "I3", "I4", "I6", "I9", "I17", "I23")


class OnlineChecks:
    """Follows the ledger, the event log and the claims. `in_order`: events arrive in the order of their numbers."""

    def __init__(self, in_order: bool) -> None:
        self._in_order = in_order
        self._lives_checked = self._executions_checked = 0
        self._last: dict[int, Execution] = {}
        self._lives: dict[str, Life] = {}
        self._numbers: set[int] = set()
        self._highest = 0
        self._dead: set[str] = set()
        self._replays = [Replay({}, Served(queue)) for queue in PLANNED]
        self._moves_reported = [0] * len(self._replays)
        self._committed_again: set[int] = set()

    def check(self, ledger: Ledger, events: Sequence[Event], samples: Sequence[Sample]) -> list[Violation]:
        """Return the violations that are new. `events` and `samples` are those that are new since the last call."""
        return [*self._check_ledger(ledger), *self._check_events(events), *self._check_claims(samples)]

    def _check_ledger(self, ledger: Ledger) -> Iterator[Violation]:
        for life in ledger.lives[self._lives_checked :]:
            if (first_life := self._lives.setdefault(life.worker, life)).pid != life.pid:
                yield Violation("I17", f"{life.worker} was process {first_life.pid} and process {life.pid}")
        self._lives_checked = len(ledger.lives)
        for second in ledger.executions[self._executions_checked :]:
            first = self._last.get(second.job)
            self._last[second.job] = second
            if first is None:
                continue
            if first.overlaps(second, self._lives.get(first.worker)):
                still = f"while token {first.token} was still running"
                yield Violation("I1", f"job {second.job} began with token {second.token} {still}")
            if first.token_did_not_grow(second, self._lives.get(second.worker)):
                yield Violation("I2", f"job {second.job} began with token {second.token} after token {first.token}")
        self._executions_checked = len(ledger.executions)

    def _check_events(self, events: Sequence[Event]) -> Iterator[Violation]:
        for event in events:
            if event.number in self._numbers:
                yield Violation("I23", f"a follower read event {event.cursor} twice")
            elif self._in_order and event.number < self._highest:
                yield Violation("I23", f"cursor {event.cursor} came after {self._highest}")
            self._numbers.add(event.number)
            self._highest = max(self._highest, event.number)
            for fact in event.of(WorkerChanged, workers.DIE):
                if fact.subject in self._dead:
                    yield Violation("I9", f"{fact.subject} died once more (event {event.cursor})")
                self._dead.add(fact.subject)
        for place, replay in enumerate(self._replays):
            replay.play(events, ())
            for text in replay.wrong_moves[self._moves_reported[place] :]:
                yield Violation("I4", text)
            self._moves_reported[place] = len(replay.wrong_moves)
            for job, times in replay.finishes.items():
                if times > 1 and job not in self._committed_again:
                    self._committed_again.add(job)
                    yield Violation("I6", f"job {job} was committed {times} times")

    def _check_claims(self, samples: Sequence[Sample]) -> Iterator[Violation]:
        for sample in samples:
            if sample.token is None or sample.worker_status not in workers.LIVE:
                held = f"with {sample.worker} and token {sample.token}"
                yield Violation("I3", f"job {sample.job} was active {held}, which nobody living has")
