"""What metrics count: the bounds of their histograms."""

from __future__ import annotations

from bisect import bisect_left

from rota.core.times import MILLISECOND, MINUTE, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Duration

RUN, PICKUP = "run", "pickup"

BOUNDS = (
    *(n * MILLISECOND for n in (1, 5, 10, 50, 100, 250, 500)),
    *(n * SECOND for n in (1, 5, 10, 30)),
    *(n * MINUTE for n in (1, 5, 15, 60)),
)


def bucket(duration: Duration) -> int:
    """In which bucket a duration falls: the first bound that it does not exceed, or one beyond."""
    return bisect_left(BOUNDS, duration)
