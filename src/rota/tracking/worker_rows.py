"""The workers of one orchestrator in the tracking tables: one thread and one connection for all of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rota.core.times import SECOND
from rota.core.version import __version__
from rota.tracking.backoff import HeartbeatBackoff
from rota.tracking.connections import Connections
from rota.tracking.delta import Delta, clean
from rota.tracking.outbox import Outbox
from rota.tracking.sender import UNTRACKED, Sender
from rota.tracking.tracker import LONGEST, batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.times import Duration
    from rota.tracking.outbox import Entry

GAP = 1.0  # seconds between two reports of progress
NAME = f"rota {__version__}"

log = logging.getLogger("rota.tracking")


class WorkerRows:
    """One row per worker process. No call waits for the database or fails because of it."""

    def __init__(self, url: str, every: Duration, write_log: Callable[[str], None], is_asked: bool = True) -> None:
        """`write_log` gets what `rota.tracking` logs in this process; `is_asked`: the settings name this database."""
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
        """Add a worker that is up."""
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
