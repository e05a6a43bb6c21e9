"""An orchestrator's copy of its slots, and whether the first workers in them came up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import slot
from rota.core.state_machine import check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rota.core.times import Instant
    from rota.orchestrator.worker_process import WorkerProcess
_TRIED = (slot.BACKOFF, slot.FAILED, slot.EMPTY)


class SupervisedSlot:
    """An orchestrator's copy of a slot: its state, the worker in it, when the next one starts, whether it is wanted.

    `orphan` is a worker of a killed orchestrator that finishes its job here; the slot is filled once it has.
    """

    def __init__(self, name: str, queue: str) -> None:
        self.name = name
        self.queue = queue
        self.state = slot.EMPTY
        self.child: WorkerProcess | None = None
        self.orphan: str | None = None
        self.start_at: Instant | None = None
        self.wanted = True
        self.shown: str | None = None  # the health that readers of the store were last told

    @property
    def takes_jobs(self) -> bool:
        """Whether its worker runs jobs, and is not the HTTP API."""
        return self.queue != slot.HTTP

    def move(self, verb: str, state: str) -> None:
        """Move to another state, as the table of slots allows."""
        check(slot.MOVES, self.state, verb, state)
        self.state = state


class Startup:
    """Report once how the start went: None as soon as a worker is up, else why there is none."""

    def __init__(self, places: Mapping[str, SupervisedSlot], on_startup: Callable[[str | None], None]) -> None:
        self._places = places
        self._on_startup: Callable[[str | None], None] | None = on_startup

    def good(self) -> None:
        """Report that a worker is up."""
        self._report(None)

    def bad(self, problem: str) -> None:
        """Report a failure, if every slot has tried and none is up."""
        if not any(place.takes_jobs and place.state not in _TRIED for place in self._places.values()):
            self._report(problem)

    def _report(self, problem: str | None) -> None:
        if self._on_startup is not None:
            self._on_startup(problem)
            self._on_startup = None
