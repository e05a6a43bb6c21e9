"""How long a failed job waits before it runs again."""

from __future__ import annotations

from rota.core.record import Record
from rota.core.times import HOUR, MINUTE, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Duration


class Backoff(Record):
    """Doubled with each attempt up to a cap, with full jitter, so that jobs that failed together return apart.

    `unknown` is how long a job waits for a worker that knows its kind, until it has failed.
    """

    first: Duration = 2 * SECOND
    most: Duration = 10 * MINUTE
    unknown: Duration = HOUR

    def delay(self, attempt: int, chance: float) -> Duration:
        """The wait after the `attempt`-th failure; `chance` is drawn from 0 up to 1."""
        longest = min(self.first << min(attempt - 1, 40), self.most)
        return round(longest * chance)
