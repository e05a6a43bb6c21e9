"""`Tracker`: a worker sends heartbeats, its counts and the progress of vectorizers."""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING

from rota.core.errors import BadInput
from rota.core.times import SECOND
from rota.tracking.backoff import HeartbeatBackoff
from rota.tracking.capability import ABSENT
from rota.tracking.connections import Connections
from rota.tracking.delta import Delta, Progress, clean
from rota.tracking.outbox import Outbox
from rota.tracking.sender import Sender

if TYPE_CHECKING:
    from typing import Self
    from uuid import UUID

SHORTEST, LONGEST = 0.1, 86_400.0
_LARGEST_ID = 2**31 - 1

log = logging.getLogger("rota.tracking")


class Tracker:
    """Sends heartbeats from its own thread, so that no call here waits for the database or fails because of it.

    `state` is `starting`, `tracked`, `untracked` (heartbeats fail and are retried), `absent` or `forbidden` (it cannot
    report; `reason` says what is missing) or `closed`. Counts are kept until they have arrived.

    Example:
        >>> with Tracker("postgresql://host/stats", "1.4.0") as tracker:
        ...     tracker.success()
    """

    def __init__(
        self, database: str | Connections, version: str, every: float = 30.0, fail_on_loss: bool = False
    ) -> None:
        """Prepare a tracker; `start` it, or use it in a `with` block.

        Args:
            database: A PostgreSQL URL, or connections that several trackers share.
            version: The version of the worker, which is shown in its row.
            every: Seconds between two heartbeats.
            fail_on_loss: Send SIGTERM to this process when three heartbeats in a row failed.

        Raises:
            BadInput: The URL or the interval is not valid.
        """
        if not SHORTEST <= every <= LONGEST:
            raise BadInput(f"every must be from {SHORTEST} s, because each beat is a write, to a day; not {every}")
        self._owned = isinstance(database, str)
        self._connections = Connections(database) if isinstance(database, str) else database
        backoff = HeartbeatBackoff(round(every * SECOND))
        self._outbox = Outbox(version, backoff.every)
        self._entry = self._outbox.open()
        lost = _leave if fail_on_loss else lambda: None
        self._sender = Sender(self._connections, self._outbox, backoff, self._who, lost)

    @property
    def id(self) -> UUID | None:
        """The worker's id in the database: None until it is registered, a new one after its row was pruned."""
        return self._entry.worker

    @property
    def state(self) -> str:
        return self._sender.state

    @property
    def reason(self) -> str:
        return self._sender.reason

    @property
    def unsent(self) -> Delta:
        """The counts that are not known to have arrived."""
        return self._outbox.unsent

    def success(self, count: int = 1) -> None:
        """Count successes, for the next heartbeat."""
        self._outbox.add(self._entry, Delta(successes=_whole(count)))

    def error(self, message: str | None = None, count: int = 1) -> None:
        """Count errors, for the next heartbeat; without a message the last message stays."""
        self._outbox.add(self._entry, Delta(errors=_whole(count), message=clean(message)))

    def progress(self, vectorizer: int | str, successes: int = 0, error: str | None = None) -> None:
        """Report a batch of one vectorizer at once, with a heartbeat; the worker's own counts do not change.

        Args:
            vectorizer: Its id, or the table that it reads; a row is added to `ai.vectorizer` if no vectorizer reads
                that table and `rota tracking install` created `ai.vectorizer`.
            successes: How many items were embedded.
            error: Why the rest of the batch failed.
        """
        self._outbox.add(self._entry, Delta(progress=(batch(vectorizer, _whole(successes), error),)))
        self._sender.wake()

    def start(self) -> Self:
        """Register and send heartbeats in the background, at once and then each interval."""
        self._sender.start()
        return self

    def close(self, timeout: float = 10.0) -> bool:
        """Send a final heartbeat and end; return whether everything has arrived. Call it after the last batch."""
        last = self._sender.close(timeout)
        if self._owned:
            self._connections.close()
        unsent = self.unsent
        if unsent != Delta() and last != ABSENT:  # without tables nobody misses them
            log.warning("closed with counts that did not arrive: %s", unsent)
        return unsent == Delta()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _who(self) -> str:
        return f"worker {self.id or '(not registered)'}"


def batch(vectorizer: int | str, successes: int, error: str | None) -> Progress:
    """Return the progress of one batch."""
    if isinstance(vectorizer, int) and not 0 <= vectorizer <= _LARGEST_ID:
        raise BadInput(f"{vectorizer} is not the id of a vectorizer")
    if error is None:
        return Progress(vectorizer, successes=successes)
    return Progress(vectorizer, beside=successes, errors=1, message=clean(error))


def _leave() -> None:
    log.error("tracking is lost, and the worker is to leave then")
    os.kill(os.getpid(), signal.SIGTERM)


def _whole(count: int) -> int:
    if count < 0:
        raise BadInput(f"{count} is less than nothing: counts are 0 or more")
    return count
