"""Throughput of the last minutes, step by step: how many jobs ended, how long they waited and how long they ran."""

from __future__ import annotations

from itertools import islice

from rota.core import job as jobs
from rota.core.event import JobMoved
from rota.core.times import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.event import Event
    from rota.core.times import Instant
    from rota.documents import Document

STEP, STEPS = 2 * SECOND, 150
RATE_OVER = 5  # steps
_MOST_SAMPLES, _MOST_KNOWN = 500, 100_000
_FAILURES = (jobs.FAIL, jobs.DIE, jobs.EXPIRE)


class _Step:
    """The jobs that ended within one step, and the waits and run times of those sampled."""

    __slots__ = ("failed", "finished", "pickups", "runs")

    def __init__(self) -> None:
        self.finished: dict[str, int] = {}
        self.failed = 0
        self.pickups: list[float] = []
        self.runs: list[float] = []


class Throughput:
    """Computes throughput from the events of the log in order. Remembers a bounded number of steps and jobs."""

    def __init__(self) -> None:
        self._steps: dict[int, _Step] = {}
        self._ready: dict[int, Instant] = {}
        self._held: dict[int, Instant] = {}

    def note(self, event: Event) -> None:
        """Count the moves of one event."""
        at, moves = event.at, event.of(JobMoved)
        if not moves:
            return
        step = self._step(at)
        for move in moves:
            verb, ids = move.verb, move.ids
            if verb == jobs.FINISH:
                step.finished[move.queue] = step.finished.get(move.queue, 0) + len(ids)
            elif verb in _FAILURES:
                step.failed += len(ids)
            if verb == jobs.CLAIM:
                _sample(step.pickups, self._ready, ids, at)
                _remember(self._held, ids, at)
            elif move.old == jobs.ACTIVE:
                _sample(step.runs if verb in (jobs.FINISH, jobs.FAIL) else [], self._held, ids, at)
            if move.new == jobs.READY:
                _remember(self._ready, ids, at)

    def document(self, now: Instant) -> Document:
        """Return the last steps as series, oldest first, without the current one."""
        last = now // STEP
        steps = [self._steps.get(place) for place in range(last - STEPS, last)]
        return {
            "step": STEP // SECOND,
            "finished": [sum(step.finished.values()) if step else 0 for step in steps],
            "failed": [step.failed if step else 0 for step in steps],
            "pickup_p50": [_share(step.pickups, 0.5) if step else None for step in steps],
            "pickup_p95": [_share(step.pickups, 0.95) if step else None for step in steps],
            "run_p50": [_share(step.runs, 0.5) if step else None for step in steps],
            "run_p95": [_share(step.runs, 0.95) if step else None for step in steps],
            "rates": self._rates(last),
        }

    def finished(self, now: Instant, steps: int, queue: str | None = None) -> list[int]:
        """Return how many jobs succeeded in each of the last complete steps, of one queue or of all."""
        last = self._last(now, steps)
        if queue is not None:
            return [step.finished.get(queue, 0) if step else 0 for step in last]
        return [sum(step.finished.values()) if step else 0 for step in last]

    def failed(self, now: Instant, steps: int) -> list[int]:
        """Return how many runs failed in each of the last complete steps."""
        return [step.failed if step else 0 for step in self._last(now, steps)]

    def rates(self, now: Instant) -> dict[str, float]:
        """Return how many jobs per second succeeded recently, by queue."""
        return self._rates(now // STEP)

    def _last(self, now: Instant, steps: int) -> list[_Step | None]:
        last = now // STEP
        return [self._steps.get(place) for place in range(last - steps, last)]

    def _rates(self, last: int) -> dict[str, float]:
        """Return how many jobs per second succeeded recently, by queue."""
        counts: dict[str, int] = {}
        for place in range(last - RATE_OVER, last):
            step = self._steps.get(place)
            for queue, count in step.finished.items() if step else ():
                counts[queue] = counts.get(queue, 0) + count
        return {queue: round(count / (RATE_OVER * STEP / SECOND), 3) for queue, count in sorted(counts.items())}

    def _step(self, at: Instant) -> _Step:
        place = at // STEP
        if place not in self._steps:
            self._steps[place] = _Step()
            for outdated in [step for step in self._steps if step < place - STEPS]:
                del self._steps[outdated]
        return self._steps[place]


def _sample(into: list[float], since: dict[int, Instant], ids: Sequence[int], at: Instant) -> None:
    """Forget these jobs, and sample how long ago each was remembered while there is room for samples."""
    for id in ids:
        began = since.pop(id, None)
        if began is not None and len(into) < _MOST_SAMPLES:
            into.append((at - began) / SECOND)


def _remember(into: dict[int, Instant], ids: Sequence[int], at: Instant) -> None:
    into.update(dict.fromkeys(ids, at))
    if len(into) > _MOST_KNOWN:
        for id in list(islice(into, len(into) - _MOST_KNOWN)):
            del into[id]


def _share(samples: list[float], share: float) -> float | None:
    """Return the sample that this share of the samples does not exceed."""
    if not samples:
        return None
    return round(sorted(samples)[min(len(samples) - 1, int(share * len(samples)))], 6)
