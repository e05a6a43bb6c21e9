"""The exchange of outcomes for claims, one at a time: what workers report is settled, and those with room get more."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rota.core.errors import RotaError
from rota.orchestrator import ledger as urgency

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from rota.core.claim import Outcome
    from rota.orchestrator.ledger import Ledger
    from rota.store.orchestrators import Exchange, Handout, Idle


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
        self._outcomes: deque[tuple[int, int, Outcome]] = deque()
        self._number = 0
        self._under_way = False
        self._hungry = True

    def report(self, job: int, token: int, outcome: Outcome) -> None:
        """A job ended; it is settled with the next exchange."""
        self._outcomes.append((job, token, outcome))

    def take(self, tokens: Collection[int]) -> list[tuple[int, int, Outcome]]:
        """The reports of these claims that no exchange has carried yet, to be settled elsewhere."""
        mine = [outcome for outcome in self._outcomes if outcome[1] in tokens]
        self._outcomes = deque(outcome for outcome in self._outcomes if outcome[1] not in tokens)
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
        outcomes, number = list(self._outcomes), self._number
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
