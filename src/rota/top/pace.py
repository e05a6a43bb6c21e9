"""How many jobs were done and how many attempts failed of late, counted from the log second by second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.times import Instant
    from rota.store.events import Event

DONE, FAILED = "done", "failed"
KEPT = 600 * SECOND
RATE_OVER = 10 * SECOND
BUCKET = 2 * SECOND


class Pace:
    """What the noted events tell of the last ten minutes; `since` when they begin."""

    def __init__(self, since: Instant) -> None:
        self._since = since
        self._counts: dict[int, dict[tuple[str, str], int]] = {}

    def note(self, events: Iterable[Event]) -> None:
        """Count what these tell of the ends of runs."""
        for event in events:
            for fact in event.facts:
                if fact[0] == "job" and len(fact) > 5 and (what := _end(fact[1], fact[4])):
                    second = self._counts.setdefault(event.at // SECOND, {})
                    second[what, fact[2]] = second.get((what, fact[2]), 0) + len(fact[5])

    def forget(self, now: Instant) -> None:
        """Drop what is too old to be shown."""
        oldest = (now - KEPT) // SECOND
        for second in [second for second in self._counts if second < oldest]:
            del self._counts[second]

    def rate(self, what: str, now: Instant, queue: str | None = None) -> float:
        """How many per second, over the last ten that are over."""
        until = now // SECOND
        over = max(1, min(RATE_OVER, now - self._since) // SECOND)
        return sum(self._at(second, what, queue) for second in range(until - over, until)) / over

    def series(self, what: str, now: Instant, columns: int, queue: str | None = None) -> list[int]:
        """How many in each of so many stretches of two seconds, the last one that is over at the end."""
        size, last = BUCKET // SECOND, now // BUCKET
        stretches = range(last - columns, last)
        return [sum(self._at(each * size + n, what, queue) for n in range(size)) for each in stretches]

    def _at(self, second: int, what: str, queue: str | None) -> int:
        counts = self._counts.get(second)
        if not counts:
            return 0
        return sum(n for (each, name), n in counts.items() if each == what and queue in (None, name))


def _end(verb: str, status: str | None) -> str | None:
    """How a run ended, by its move; None for other moves. A death counts when it is the last: others are shown."""
    if verb == jobs.FINISH:
        return DONE
    return FAILED if verb == jobs.FAIL or status == jobs.FAILED else None
