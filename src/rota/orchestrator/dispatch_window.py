"""How many jobs a worker is handed at a time: one while they are long, more while they are short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import slot
from rota.core.times import MILLISECOND
from rota.store.claims.exchange import Idle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.times import Duration, Instant
    from rota.orchestrator.slot import SupervisedSlot
    from rota.orchestrator.worker_process import WorkerProcess

MOST = 128
SPAN: Duration = 30 * MILLISECOND
STUCK: Duration = 4 * SPAN
LARGEST_WINDOW = 256 * 1024


def usual_after(usual: Duration, took: Duration) -> Duration:
    """How long a worker's jobs usually take, after one more. A long one is believed at once, a short one bit by bit."""
    return took if took > usual else (3 * usual + took) // 4


def window(usual: Duration) -> int:
    """As many as fit in a few tens of milliseconds, and at least one."""
    return max(1, min(MOST, SPAN // max(1, usual)))


def idle(places: Iterable[SupervisedSlot], at: Instant) -> list[Idle]:
    """Workers with room: for two windows of short jobs, for one long job, or for as many as they have in hand."""
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
        room, held = _room(child, at), len(child.held)
        if room > 0:
            found.append(Idle(child.worker_id, place.queue, room, held, child.concurrency > 1, child.wants_whole))
    return found


def _room(child: WorkerProcess, at: Instant) -> int:
    """How many more a worker takes now: one that has several in hand takes no window, and nothing beside one alone.

    Nobody waits behind a job that takes long, whatever those before it took.
    """
    size, held = min(window(child.usual), LARGEST_WINDOW // child.usual_bytes or 1), len(child.held)
    if child.concurrency > 1:
        return 0 if any(each.isolated for each in child.held) else child.concurrency - held
    if held and at - child.job_started_at >= STUCK:
        return 0
    return 1 - held if size == 1 else 2 * size - held if held <= size else 0
