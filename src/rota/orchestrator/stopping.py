"""How a crew is brought to its end: time to finish, then SIGTERM, then SIGKILL."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from rota.core.times import SECOND

if TYPE_CHECKING:
    from rota.core.times import Instant

DRAIN, TERM, KILL = 20 * SECOND, 5 * SECOND, SECOND // 2


class Stopping:
    """A stop under way. Each step has its time; `due` tells the signal that begins the next one."""

    def __init__(self, at: Instant) -> None:
        self._until = at + DRAIN
        self._next = signal.SIGTERM

    def hurry(self, at: Instant) -> None:
        """Asked a second time: now."""
        self._until = at
        self._next = signal.SIGKILL

    def due(self, at: Instant) -> signal.Signals | None:
        """What to send to whoever is still there; None while they have time."""
        if at < self._until:
            return None
        sent = self._next
        self._until = at + (TERM if sent == signal.SIGTERM else KILL)
        self._next = signal.SIGKILL
        return sent
