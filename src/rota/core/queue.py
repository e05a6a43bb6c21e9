"""A queue's limits, and how many claims they allow now."""

from __future__ import annotations

from rota.core.errors import BadInput
from rota.core.record import Record
from rota.core.times import DAY, HOUR, MILLISECOND, MINUTE, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Duration, Instant

ALL, DEFAULT = "*", "default"
BREAKER = "breaker"
_PERIODS = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_BURST = 100 * MILLISECOND


class Queue(Record):
    """A named stream of jobs with its limits; the one named `*` means all of them and can only be paused."""

    name: str
    paused_at: Instant | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    max_depth: int | None = None
    rate: str | None = None
    rate_next_at: Instant = 0
    concurrency: int | None = None
    per_key: int | None = None
    breaker: int | None = None
    failures: int = 0
    fence: str | None = None

    @property
    def has_limits(self) -> bool:
        """Whether its row must be locked before its jobs are changed."""
        limits = (self.max_depth, self.rate, self.concurrency, self.per_key, self.breaker)
        return any(limit is not None for limit in limits)

    @property
    def is_limited(self) -> bool:
        """Whether claims from it must be counted one by one."""
        return self.rate is not None or self.concurrency is not None

    @property
    def is_one_by_one(self) -> bool:
        """Whether a worker gets one job of it at a time, never a window: an unstarted one would use up a limit.

        A rate counts claims, not running jobs, so a rate alone does not force it.
        """
        return self.concurrency is not None or self.per_key is not None or self.fence == "end"


class Allowance(Record):
    """How many may be claimed now, the limit in the way of more, and the queue's next free moment under its rate."""

    granted: int
    limit: str | None
    rate_next_at: Instant


def parse_rate(text: str) -> Duration:
    """Parse `10/m` into the time between two claims: a rate is spread evenly over its period."""
    count, slash, unit = text.partition("/")
    if not (slash and count.isascii() and count.isdigit() and len(count) < 19 and int(count) and unit in _PERIODS):
        raise BadInput(f"{text!r} is not a rate: write for example 10/m; per s, m, h or d")
    return max(1, _PERIODS[unit] // int(count))


def allow(queue: Queue, running: int, want: int, now: Instant) -> Allowance:
    """How many of `want` claims the queue's limits allow now.

    Any stretch of time sees at most its share of the rate, what the rate allows in 100 ms, and one claim more.
    """
    granted, limit, next_at = want, None, queue.rate_next_at
    if queue.concurrency is not None and queue.concurrency - running < granted:
        granted, limit = max(0, queue.concurrency - running), "concurrency"
    if queue.rate is not None and granted:
        every = parse_rate(queue.rate)
        # A claim that comes late keeps its place, or lateness would slow the rate; an idle queue saves up no more.
        start = next_at if now - next_at <= _BURST else now - _BURST // every * every
        room = 0 if start > now else 1 + (now - start) // every
        if room < granted:
            granted, limit = room, "rate"
        next_at = start + granted * every
    return Allowance(granted, limit, next_at)
