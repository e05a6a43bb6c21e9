"""When a slot whose worker died is filled again, and when it is given up."""

from __future__ import annotations

from rota.core.record import Record
from rota.core.times import MINUTE, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.times import Duration, Instant


class Restart(Record):
    """Start a new worker after this long."""

    after: Duration


class GiveUp(Record):
    """Start no more until a person resets the slot."""

    reason: str


class RestartPolicy(Record):
    """Backoff doubles with each restart in a sliding window; two limits end it."""

    window: Duration = 5 * MINUTE
    most_in_window: int = 5
    most_in_lifetime: int = 20
    longest_backoff: Duration = 60 * SECOND
    first_backoff: Duration = SECOND

    def decide(self, restarts: Sequence[Instant], lifetime: int, now: Instant) -> Restart | GiveUp:
        """What follows a death at `now`, asked before anything is counted. `restarts` are the times of earlier ones."""
        recent = len(self.within(restarts, now))
        if lifetime >= self.most_in_lifetime:
            return GiveUp(f"restarted {lifetime} times in all, at most {self.most_in_lifetime} are allowed")
        if recent >= self.most_in_window:
            return GiveUp(f"restarted {recent} times within {self.window // SECOND} s")
        return Restart(min(self.first_backoff << recent, self.longest_backoff))

    def within(self, restarts: Sequence[Instant], now: Instant) -> list[Instant]:
        """Those that still count."""
        return [at for at in restarts if now - at < self.window]
