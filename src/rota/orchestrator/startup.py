"""Whether the first workers came up: what whoever started the crew waits to hear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import slot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rota.orchestrator.slot import SupervisedSlot

_TRIED = (slot.BACKOFF, slot.FAILED, slot.EMPTY)


class Startup:
    """Tells it once: None for a worker that is up, else why there is none."""

    def __init__(self, places: Mapping[str, SupervisedSlot], hear: Callable[[str | None], None]) -> None:
        self._places = places
        self._hear: Callable[[str | None], None] | None = hear

    def good(self) -> None:
        """A worker is up."""
        self._tell(None)

    def bad(self, problem: str) -> None:
        """Something failed: that is news when every slot has had its try and none is up."""
        if not any(place.takes_jobs and place.state not in _TRIED for place in self._places.values()):
            self._tell(problem)

    def _tell(self, problem: str | None) -> None:
        if self._hear is not None:
            self._hear(problem)
            self._hear = None
