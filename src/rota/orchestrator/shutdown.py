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
    """A shutdown under way. Each step has its time; `due` returns the signal that begins the next one.

    `patience` None: running jobs are finished, however long they take.
    """

    def __init__(self, at: Instant, patience: Duration | None) -> None:
        self._until = None if patience is None else at + patience
        self._next = signal.SIGTERM
        self._last_word = LAST_WORD
        self._alone_since: Instant | None = None

    def hurry(self, at: Instant) -> None:
        """End it now: a second signal came."""
        self._until = at
        self._next = signal.SIGKILL
        self._last_word = LAST_WORD_NOW

    def stalled(self, by: Duration) -> None:
        """Extend the current step by the time for which this process itself was stopped."""
        if self._until is not None:
            self._until += by

    def due(self, at: Instant) -> signal.Signals | None:
        """Return the signal for workers that are still there; None while they have time."""
        if self._until is None or at < self._until:
            return None
        sent = self._next
        self._until = at + (TERM if sent == signal.SIGTERM else KILL)
        self._next = signal.SIGKILL
        return sent

    def is_over(self, at: Instant) -> bool:
        """Whether the store has had its time to record the last deaths, now that all workers are gone."""
        return self._alone_for(at) >= self._last_word

    def waits_for_helpers(self, at: Instant) -> bool:
        """Whether the helpers of orphans still have time to report, now that all workers are gone."""
        return self._alone_for(at) < min(HELPERS, self._last_word)

    def _alone_for(self, at: Instant) -> Duration:
        if self._alone_since is None:
            self._alone_since = at
        return at - self._alone_since
