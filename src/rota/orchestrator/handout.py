"""How many jobs a worker is handed at a time: one while they are long, more while they are short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import slot
from rota.core.record import Record
from rota.core.times import MILLISECOND
from rota.store.exchange import Idle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.times import Duration
    from rota.orchestrator.place import Place

MOST = 64
SPAN: Duration = 30 * MILLISECOND
STUCK: Duration = 4 * SPAN


class Window(Record):
    """What is known of a worker's jobs: how long they take, smoothed."""

    usual: Duration = SPAN

    def after(self, took: Duration, jobs: int) -> Window:
        """Learn from jobs that ended; a long one is believed at once, short ones little by little."""
        each = took // max(1, jobs)
        return Window(each if each > self.usual else (3 * self.usual + each) // 4)

    @property
    def size(self) -> int:
        """As many as fit in a few tens of milliseconds, and at least one."""
        return max(1, min(MOST, SPAN // max(1, self.usual)))


def idle(places: Iterable[Place]) -> list[Idle]:
    """Workers with room: two windows of short jobs, or one long job."""
    found = []
    for place in places:
        child = place.child
        if (
            child is None
            or not place.takes_jobs
            or place.state != slot.UP
            or child.stopping
            or child.ending is not None
        ):
            continue
        size, held = child.window.size, len(child.held)
        room = 1 - held if size == 1 else 2 * size - held if held <= size else 0
        if room > 0:
            found.append(Idle(child.worker_id, place.queue, room, held))
    return found
