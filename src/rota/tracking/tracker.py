"""`Tracker` reports heartbeats, counts and progress for one worker, `WorkerRows` for the workers of an orchestrator."""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING

from rota.core.errors import BadInput
from rota.core.times import SECOND
from rota.core.version import __version__
from rota.tracking.connections import Connections
from rota.tracking.outbox import Delta, Outbox, Progress, clean
from rota.tracking.sender import ABSENT, UNTRACKED, HeartbeatBackoff, Sender

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self
    from uuid import UUID

    from rota.core.times import Duration
    from rota.tracking.outbox import Entry

SHORTEST, LONGEST = 0.1, 86_400.0
GAP = 1.0  # seconds between two reports of progress
NAME = f"rota {__version__}"
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
        """Whether heartbeats arrive; see the class for the states."""
        return self._sender.state

    @property
    def reason(self) -> str:
        """Why the state is not `tracked`; an empty text if it is."""
        return self._sender.reason

    @property
    def unsent(self) -> Delta:
        """The counts that are not known to have arrived."""
        return self._outbox.unsent

    def success(self, count: int = 1) -> None:
        """Count successes, which the next heartbeat reports.

        Raises:
            BadInput: The count is negative.
        """
        self._outbox.add(self._entry, Delta(successes=_whole(count)))

    def error(self, message: str | None = None, count: int = 1) -> None:
        """Count errors, which the next heartbeat reports.

        Args:
            message: Shown as the last error of the worker; without one the message before is kept.
            count: How many errors there were.

        Raises:
            BadInput: The count is negative.
        """
        self._outbox.add(self._entry, Delta(errors=_whole(count), message=clean(message)))

    def progress(self, vectorizer: int | str, successes: int = 0, error: str | None = None) -> None:
        """Report a batch of one vectorizer at once, with a heartbeat; the worker's own counts do not change.

        Args:
            vectorizer: Its id, or the table that it reads; a row is added to `ai.vectorizer` if no vectorizer reads
                that table and `rota tracking install` created `ai.vectorizer`.
            successes: How many items were embedded.
            error: Why the rest of the batch failed.

        Raises:
            BadInput: The id or the count is out of range.
        """
        self._outbox.add(self._entry, Delta(progress=(batch(vectorizer, _whole(successes), error),)))
        self._sender.wake()

    def start(self) -> Self:
        """Register and send heartbeats in the background, at once and then each interval; return the tracker itself."""
        self._sender.start()
        return self

    def close(self, timeout: float = 10.0) -> bool:
        """Send a final heartbeat and end. Call it after the last batch.

        Args:
            timeout: How many seconds to retry while the database does not answer.

        Returns:
            Whether all counts are known to have arrived.
        """
        last = self._sender.close(timeout)
        if self._owned:
            self._connections.close()
        unsent = self.unsent
        # In a database without tracking tables nobody expects the counts.
        if unsent != Delta() and last != ABSENT:
            log.warning("closed with counts that did not arrive: %s", unsent)
        return unsent == Delta()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _who(self) -> str:
        return f"worker {self.id or '(not registered)'}"


def batch(vectorizer: int | str, successes: int, error: str | None) -> Progress:
    """Return the progress of one batch: its successes, and an error that kept the rest from succeeding."""
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


class WorkerRows:
    """The rows of an orchestrator's workers: one thread and one connection send them all (decision 19).

    No call waits for the database or fails because of it.
    """

    def __init__(self, url: str, every: Duration, write_log: Callable[[str], None], is_asked: bool = True) -> None:
        """Start to send heartbeats.

        Args:
            url: The database, which must have the tracking tables.
            every: The time between two heartbeats.
            write_log: Called with each message that `rota.tracking` logs in this process.
            is_asked: Whether the settings name this database. Otherwise missing tables are logged at level DEBUG only.
        """
        # The orchestrator has a log of its own, so nothing of this reaches the root logger.
        log.setLevel(logging.INFO)
        log.propagate = False
        log.addHandler(_Forward(write_log))
        backoff = HeartbeatBackoff(min(every, round(LONGEST * SECOND)))
        self._connections = Connections(url)
        self._outbox = Outbox(NAME, backoff.every)
        self._sender = Sender(
            self._connections, self._outbox, backoff, lambda: "the crew's workers", gap=GAP, is_asked=is_asked
        )
        self._entries: dict[str, Entry] = {}
        self._sender.start()

    @property
    def state(self) -> str:
        return self._sender.state

    def started(self, worker: str) -> None:
        """Add a worker that has started."""
        self._entries[worker] = self._outbox.open()
        self._sender.wake()

    def count(self, worker: str, error: str | None, vectorizer: int | str | None = None, times: int = 1) -> None:
        """Count jobs of a worker as successes or errors, and as progress where they belong to a vectorizer."""
        entry = self._entries.get(worker)
        if entry is None:
            return
        progress = () if vectorizer is None else (batch(vectorizer, times * (error is None), error),)
        counts = Delta(times * (error is None), times * (error is not None), clean(error), progress)
        self._outbox.add(entry, counts)
        if progress:
            self._sender.wake()

    def ended(self, worker: str) -> None:
        """Remove a worker that is gone, after all its jobs were counted."""
        entry = self._entries.pop(worker, None)
        if entry is not None:
            self._outbox.leave(entry)
            self._sender.wake()

    def close(self, timeout: float) -> None:
        """Send a last heartbeat of the remaining workers, if the database accepts it in time.

        A database that is known to be away is tried once and not waited for.
        """
        self._sender.close(0.0 if self.state == UNTRACKED else timeout)
        self._connections.close()
        unsent = self._outbox.unsent
        if unsent != Delta():
            log.warning("the crew ended with counts that did not arrive: %s", unsent)


class _Forward(logging.Handler):
    """Passes messages to the log of the orchestrator."""

    def __init__(self, write_log: Callable[[str], None]) -> None:
        super().__init__()
        self._write_log = write_log

    def emit(self, record: logging.LogRecord) -> None:
        self._write_log(record.getMessage())
