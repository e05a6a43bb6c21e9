"""The workers of one orchestrator in the tracking tables: one thread and one connection for all of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rota.core.times import SECOND
from rota.core.version import __version__
from rota.tracking.backoff import Pace
from rota.tracking.connections import Lines
from rota.tracking.delta import Parcel, clean
from rota.tracking.outbox import Account
from rota.tracking.sender import UNTRACKED, Beating
from rota.tracking.tracker import LONGEST, batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.times import Duration
    from rota.tracking.outbox import Entry

GAP = 1.0  # seconds between two reports of progress, however many batches end meanwhile
NAME = f"rota {__version__}"

log = logging.getLogger("rota.tracking")


class Roll:
    """Each worker life is a row. No call waits for the database, and none fails because of it."""

    def __init__(self, url: str, every: Duration, tell: Callable[[str], None], is_asked: bool = True) -> None:
        """`tell` hears all that `rota.tracking` logs in this process; `is_asked`: a setting names where to report."""
        _listen(tell)
        pace = Pace(min(every, round(LONGEST * SECOND)))
        self._lines = Lines(url)
        self._account = Account(NAME, pace.every)
        self._beating = Beating(
            self._lines, self._account, pace, lambda: "the crew's workers", gap=GAP, is_asked=is_asked
        )
        self._entries: dict[str, Entry] = {}
        self._beating.start()

    @property
    def state(self) -> str:
        return self._beating.state

    def came(self, worker: str) -> None:
        """A worker is up."""
        self._entries[worker] = self._account.open()
        self._beating.wake()

    def count(self, worker: str, error: str | None, vectorizer: int | str | None = None, times: int = 1) -> None:
        """So many jobs of this worker ended well, or with an error; where they were a vectorizer's, it is progress."""
        entry = self._entries.get(worker)
        if entry is None:
            return
        progress = () if vectorizer is None else (batch(vectorizer, times * (error is None), error),)
        counts = Parcel(times * (error is None), times * (error is not None), clean(error), progress)
        self._account.add(entry, counts)
        if progress:
            self._beating.wake()

    def left(self, worker: str) -> None:
        """A worker is gone, and all that it did is counted."""
        entry = self._entries.pop(worker, None)
        if entry is not None:
            self._account.leave(entry)
            self._beating.wake()

    def close(self, timeout: float) -> None:
        """A last beat of those that are left to report, if the database takes it in time.

        One that is known to be away is tried once and not waited for.
        """
        self._beating.close(0.0 if self.state == UNTRACKED else timeout)
        self._lines.close()
        unsent = self._account.unsent
        if unsent != Parcel():
            log.warning("the crew ended with counts that did not arrive: %s", unsent)


class _Told(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(record.getMessage())


def _listen(tell: Callable[[str], None]) -> None:
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(_Told(tell))
