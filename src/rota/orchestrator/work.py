"""The exchange of outcomes for claims, one at a time: what workers report is settled, and those with room get more."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rota.core.errors import RotaError
from rota.orchestrator import ledger as urgency

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.orchestrator.ledger import Ledger
    from rota.store.orchestrators import Exchange, Handout, Idle, Settled


class Work:
    """What one orchestrator has to settle, and whether it may find more to do."""

    def __init__(
        self,
        ledger: Ledger,
        deliver: Callable[[Sequence[Handout]], None],
        refused: Callable[[int], None],
        lost: Callable[[RotaError], None],
    ) -> None:
        self._ledger = ledger
        self._deliver = deliver
        self._refused = refused
        self._lost = lost
        self._outcomes: deque[tuple[str, Settled]] = deque()
        self._number = 0
        self._under_way = False
        self._hungry = True

    def report(self, worker: str, settled: Settled) -> None:
        """A job of this worker ended; it is settled with the next exchange."""
        self._outcomes.append((worker, settled))

    def take(self, worker: str) -> list[Settled]:
        """The reports of this worker that no exchange has carried yet, to be settled elsewhere."""
        mine = [settled for by, settled in self._outcomes if by == worker]
        self._outcomes = deque((by, settled) for by, settled in self._outcomes if by != worker)
        return mine

    def wake(self) -> None:
        """There may be something to claim."""
        self._hungry = True

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to settle."""
        return not self._outcomes and not self._under_way

    def turn(self, id: int, idle: Sequence[Idle]) -> None:
        """Begin an exchange if there is something to settle, or perhaps something to claim."""
        if self._under_way or not (self._outcomes or (self._hungry and idle)):
            return
        outcomes, number = [settled for _, settled in self._outcomes], self._number
        self._outcomes.clear()
        self._under_way, self._hungry = True, False
        room = sum(each.room for each in idle)
        self._ledger.ask(
            urgency.WORK,
            lambda store: store.orchestrators.exchange(id, number, outcomes, idle),
            lambda answer: self._answered(answer, room),
        )

    def _answered(self, answer: Exchange | RotaError, room: int) -> None:
        self._under_way = False
        if isinstance(answer, RotaError):
            self._lost(answer)
            return
        self._number = answer.number
        self._hungry = self._hungry or len(answer.claims) >= max(1, room)
        for token in answer.refused:
            self._refused(token)
        self._deliver(answer.claims)
