"""How much of a long task to do in one go, so that nobody who waits for it waits for long."""

from __future__ import annotations

from rota.core.times import MILLISECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Duration

FIRST, MOST = 8, 500
SHORT, LONG = 8 * MILLISECOND, 20 * MILLISECOND
SHARE = 4  # of the time that the steps leave to others, to that of a step
SHORTEST_PAUSE = 5 * MILLISECOND


def stride_after(size: int, took: Duration) -> int:
    """The size of the next step, when one of this size took so long."""
    if took > LONG:
        return max(1, size // 2)
    return min(MOST, size * 2) if took < SHORT else size


def pause_after(took: Duration) -> Duration:
    """How long others have the store to themselves after a step."""
    return max(SHORTEST_PAUSE, SHARE * took)
