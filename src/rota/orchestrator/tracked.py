"""What a crew's workers did, counted for the tracking tables once the store has taken it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rota.core.claim import Done, Failed
from rota.core.death import DEADLINE, OPERATOR, RECYCLED, TOO_MANY_ERRORS
from rota.core.record import Record
from rota.core.source import KIND, vectorizers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rota.core.claim import Outcome
    from rota.orchestrator.child import Child
    from rota.orchestrator.log import Say
    from rota.settings import Settings
    from rota.store.deaths import Death
    from rota.store.exchange import Handout
    from rota.tracking.roll import Roll

UNCHARGED = (TOO_MANY_ERRORS, RECYCLED, OPERATOR)
TIMED_OUT = "ran past its time-out"


class Ended(Record):
    """How a job ended for its worker: `error` None is a success. `source` is where it came from."""

    worker: str
    error: str | None
    source: str | None


class Tracked:
    """Keeps what workers report until it is settled, then counts it, once. Without a roll it does nothing."""

    def __init__(self, roll: Roll | None = None) -> None:
        self._roll = roll
        self._reported: dict[int, Ended] = {}
        self._vectorizers: dict[str, int | str] = {}

    def learn(self, hello: dict[str, Any]) -> None:
        """A worker told which vectorizers its application's sources are."""
        self._vectorizers |= vectorizers(hello)

    def came(self, worker: str) -> None:
        if self._roll is not None:
            self._roll.came(worker)

    def reported(self, worker: str, held: Handout, outcome: Outcome) -> None:
        """A job ended; it counts once it is settled. What is given back or put off is neither success nor error."""
        if self._roll is not None and isinstance(outcome, Done | Failed):
            error = outcome.error if isinstance(outcome, Failed) else None
            self._reported[held.token] = Ended(worker, error, source_of(held))

    def settled(self, tokens: Iterable[int], refused: Collection[int]) -> None:
        """The store took these reports, but for those that it refused. One that comes twice counts once."""
        if not self._reported:
            return
        for token in tokens:
            ended = self._reported.pop(token, None)
            if ended is not None and token not in refused:
                self._count(ended)

    def left(self, worker: str, spent: Iterable[Ended] = ()) -> None:
        """A worker's end is written down, and what it had in hand is charged: nothing more will come of it."""
        if self._roll is None:
            return
        for ended in spent:
            self._count(ended)
        self._reported = {token: ended for token, ended in self._reported.items() if ended.worker != worker}
        self._roll.left(worker)

    def _count(self, ended: Ended) -> None:
        assert self._roll is not None
        self._roll.count(ended.worker, ended.error, self._vectorizers.get(ended.source or ""))


def source_of(held: Handout) -> str | None:
    """The source that a job came from; the job that looks for work in it is no progress of its own."""
    return None if held.kind.startswith(KIND) else held.source


def spent_by(death: Death, child: Child) -> list[Ended]:
    """The jobs in hand that a worker's death is an error of, as the store judges it."""
    if death.is_peaceful or death.reason in UNCHARGED:
        return []
    if death.reason == DEADLINE:
        overdue = [held for held in child.held if held.token in death.overdue] or list(child.held)[:1]
        return [Ended(child.worker_id, TIMED_OUT, source_of(held)) for held in overdue]
    if child.concurrency > 1 and len(child.held) > 1:  # nobody knows which of them it was
        return []
    return [Ended(child.worker_id, death.text, source_of(held)) for held in list(child.held)[:1]]


def open_roll(settings: Settings, say: Say) -> Roll | None:
    """The tracking that the settings ask for; what it has to say goes into the orchestrator's log."""
    if settings.tracking_url is None:
        return None
    from rota.tracking.roll import Roll  # psycopg takes long to import, and most crews need none

    log = logging.getLogger("rota.tracking")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(_Said(say))
    return Roll(settings.tracking_url, settings.heartbeat_interval)


class _Said(logging.Handler):
    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage(), "tracking")
