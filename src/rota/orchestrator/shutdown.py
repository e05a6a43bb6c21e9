"""How a crew is brought to its end: time to finish, then SIGTERM, then SIGKILL."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from rota.core.times import SECOND

if TYPE_CHECKING:
    from rota.core.times import Duration, Instant

TERM, KILL = 5 * SECOND, SECOND // 2
LAST_WORD, LAST_WORD_NOW = 10 * SECOND, SECOND
HELPERS = 3 * SECOND


class Shutdown:
    """A stop under way. Each step has its time; `due` tells the signal that begins the next one.

    `patience` None: whatever is in hand is finished, however long it takes.
    """

    def __init__(self, at: Instant, patience: Duration | None) -> None:
        self._until = None if patience is None else at + patience
        self._next = signal.SIGTERM
        self._last_word = LAST_WORD
        self._alone_since: Instant | None = None

    def hurry(self, at: Instant) -> None:
        """Asked a second time: now."""
        self._until = at
        self._next = signal.SIGKILL
        self._last_word = LAST_WORD_NOW

    def stalled(self, by: Duration) -> None:
        """We stood still ourselves: nobody had that time."""
        if self._until is not None:
            self._until += by

    def due(self, at: Instant) -> signal.Signals | None:
        """What to send to whoever is still there; None while they have time."""
        if self._until is None or at < self._until:
            return None
        sent = self._next
        self._until = at + (TERM if sent == signal.SIGTERM else KILL)
        self._next = signal.SIGKILL
        return sent

    def is_over(self, at: Instant) -> bool:
        """All workers are gone: has the store had its time to write that down?"""
        return self._alone_for(at) >= self._last_word

    def waits_for_helpers(self, at: Instant) -> bool:
        """All workers are gone: do the helpers of orphans have time to tell of theirs?"""
        return self._alone_for(at) < min(HELPERS, self._last_word)

    def _alone_for(self, at: Instant) -> Duration:
        if self._alone_since is None:
            self._alone_since = at
        return at - self._alone_since
