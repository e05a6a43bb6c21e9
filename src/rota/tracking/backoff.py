"""When to beat next. Pure: it counts failures, and chance is an argument."""

from __future__ import annotations

from rota.core.record import Record
from rota.core.retry import Backoff
from rota.core.times import MINUTE, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Duration

LOST_AFTER = 3
_BACKOFF = Backoff(first=SECOND, most=MINUTE)


class Pace(Record):
    """A beat each interval; after three failures in a row the worker is untracked, and tries become rarer."""

    every: Duration
    failures: int = 0

    @property
    def lost(self) -> bool:
        return self.failures >= LOST_AFTER

    def failed(self) -> Pace:
        return self.replace(failures=self.failures + 1)

    def succeeded(self) -> Pace:
        return self.replace(failures=0)

    def delay(self, chance: float) -> Duration:
        """How long until the next try; never sooner than the interval. `chance` is drawn from 0 up to 1."""
        if not self.lost:
            return self.every
        # Half of it is fixed: a thousand workers come back spread out, and none of them at once.
        return max(self.every, _BACKOFF.delay(self.failures - LOST_AFTER + 1, 0.5 + chance / 2))

    def look_again(self, chance: float) -> Duration:
        """How long until the next look for tables that were not there."""
        return max(self.every, round(MINUTE * (0.5 + chance / 2)))
