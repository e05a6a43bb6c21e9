"""When to send the next heartbeat. Pure: it counts failures, and chance is an argument."""

from __future__ import annotations

from rota.core import retry
from rota.core.record import Record
from rota.core.times import MINUTE, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Duration

LOST_AFTER = 3
_DELAYS = retry.Backoff(first=SECOND, most=MINUTE)


class HeartbeatBackoff(Record):
    """One heartbeat per interval; after three failures in a row the worker is untracked and tries become rarer."""

    every: Duration
    failures: int = 0

    @property
    def lost(self) -> bool:
        return self.failures >= LOST_AFTER

    def failed(self) -> HeartbeatBackoff:
        return self.replace(failures=self.failures + 1)

    def succeeded(self) -> HeartbeatBackoff:
        return self.replace(failures=0)

    def delay(self, chance: float) -> Duration:
        """Return the time until the next try, never less than the interval. `chance` is drawn from [0, 1)."""
        if not self.lost:
            return self.every
        # Half of it is fixed, so that a thousand workers neither come back together nor immediately.
        return max(self.every, _DELAYS.delay(self.failures - LOST_AFTER + 1, 0.5 + chance / 2))

    def until_next_check(self, chance: float) -> Duration:
        """Return the time until the next check for tables that were missing."""
        return max(self.every, round(MINUTE * (0.5 + chance / 2)))
