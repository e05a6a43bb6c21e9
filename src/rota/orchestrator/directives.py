"""Directives to a running crew: scale, reset, pause, cancel, stop one worker, drain. Each is acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import slot
from rota.core.death import OPERATOR
from rota.core.job import CANCELLED
from rota.core.orchestrator import DRAIN
from rota.core.queue import ALL
from rota.orchestrator.maintenance import now
from rota.orchestrator.slot import SupervisedSlot

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.orchestrator.worker_process import WorkerProcess
    from rota.store.workers.crews import Directive
    from rota.store.workers.slots import Slot


class Directives:
    """Carry out directives; one is acknowledged once no worker can still start what it forbids."""

    def __init__(
        self,
        places: dict[str, SupervisedSlot],
        fill: Callable[[SupervisedSlot], None],
        end: Callable[[WorkerProcess, str, str], None],
        drain: Callable[[], None],
        answer: Callable[[int], None],
    ) -> None:
        self._places = places
        self._fill = fill
        self._end = end
        self._drain = drain
        self._answer = answer
        self._recalled: set[str] = set()
        self._paused: frozenset[str] = frozenset()
        self.number = -1

    def carry_out(self, directive: Directive) -> None:
        """Carry out everything asked since the last directive."""
        self.number, self._paused = directive.number, directive.paused
        self._resize({each.name: each for each in directive.slots if each.wanted})
        for place in self._places.values():
            if place.child is not None:
                self._apply(place.child, directive)
                if place.child.worker_id in directive.to_stop:
                    place.move(slot.STOP, slot.STOPPING)
        if directive.desired == DRAIN:
            self._drain()
        if not self._recalled:
            self._answer(self.number)

    def is_paused(self, queue: str) -> bool:
        return queue != slot.HTTP and (ALL in self._paused or queue in self._paused)

    def returned(self, worker: str) -> bool:
        """A worker has given back what it had not started; whether that lets something be claimed again."""
        if worker not in self._recalled:
            return False
        self._recalled.discard(worker)
        if not self._recalled:
            self._answer(self.number)
        return True

    def _apply(self, child: WorkerProcess, directive: Directive) -> None:
        if child.worker_id in directive.to_stop:
            child.ask_to_stop()
        running = child.running
        for each in running:
            if each.token not in directive.held and not child.cancel(each, CANCELLED, now()):
                self._end(child, OPERATOR, f"job {each.job_id} was called off")
        rest = list(child.held)[len(running) :]
        if child.ending is None and any(
            each.token not in directive.held or self.is_paused(each.queue) for each in rest
        ):
            self._recalled.add(child.worker_id)
            child.recall()

    def _resize(self, wanted: dict[str, Slot]) -> None:
        """Fill slots that were added or reset; empty those that are no longer wanted."""
        for name, each in wanted.items():
            place = self._places.setdefault(name, SupervisedSlot(name, each.queue))
            is_reset = place.state == slot.FAILED and each.history.failed_at is None
            is_hurried = place.state == slot.BACKOFF and place.start_at is not None and each.status == slot.EMPTY
            if is_reset or is_hurried:
                place.move(slot.RESET, slot.EMPTY)
                place.start_at = None
            if place.state == slot.EMPTY and place.start_at is None:
                self._fill(place)
        for name in [name for name in self._places if name not in wanted]:
            place = self._places[name]
            place.start_at, place.wanted = None, False
            if place.child is not None:
                place.move(slot.STOP, slot.STOPPING)
                place.child.ask_to_stop()
            elif place.orphan is None:
                del self._places[name]
