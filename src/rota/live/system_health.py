"""The health of the system as a whole, and how long the waiting jobs will take."""

from __future__ import annotations

from rota.core import slot as slots
from rota.core.record import Record
from rota.core.times import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.times import Duration

HEALTHY, DEGRADED, ERROR = "healthy", "degraded", "error"
STATES = (HEALTHY, DEGRADED, ERROR)
_FILLED = (slots.STARTING, slots.UP, slots.STOPPING)


class Place(Record):
    """What the system's health depends on in a slot. `watched`: a live orchestrator should keep it filled."""

    name: str
    queue: str
    status: str
    watched: bool
    reason: str | None = None


def health(places: Iterable[Place]) -> tuple[str, list[str]]:
    """Return the health of the system and its reasons.

    A slot that failed or backs off degrades it; a pool without any worker is an error.
    """
    watched = [place for place in places if place.watched]
    filled = {place.queue for place in watched if place.status in _FILLED}
    empty = sorted({place.queue for place in watched} - filled - {slots.HTTP})
    troubled = [place for place in watched if place.status in (slots.FAILED, slots.BACKOFF)]
    errors = [f"queue {queue} has no live worker" for queue in empty]
    errors += [f"{place.name} {_trouble(place)}" for place in troubled]
    return ERROR if empty else DEGRADED if troubled else HEALTHY, errors


def _trouble(place: Place) -> str:
    if place.status == slots.BACKOFF:
        return "waits to be started again"
    return f"has failed: it {place.reason}" if place.reason else "has failed"


def average(runs: int, took: Duration) -> float:
    """Return the seconds per run; 0 if there was none."""
    return round(took / runs / SECOND, 6) if runs else 0.0


def eta(pending: int, average: float, workers: int) -> float:
    """Return the seconds that `workers` need for the pending jobs."""
    return round(pending * average / max(1, workers), 3)
