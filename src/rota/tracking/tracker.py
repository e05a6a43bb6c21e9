"""`Tracker`: a worker reports that it lives, what it did and how far each vectorizer is."""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING

from rota.core.errors import BadInput
from rota.core.times import SECOND
from rota.tracking.backoff import Pace
from rota.tracking.connections import Lines
from rota.tracking.delta import Parcel, Progress, clean
from rota.tracking.outbox import Account
from rota.tracking.sender import ABSENT, Beating

if TYPE_CHECKING:
    from typing import Self
    from uuid import UUID

SHORTEST, LONGEST = 0.1, 86_400.0
_LARGEST_ID = 2**31 - 1

log = logging.getLogger("rota.tracking")


class Tracker:
    """Beats from a thread of its own, so that no call here waits for the database and none fails because of it.

    `state` says how it stands: `starting`, `tracked`, `untracked` (beats fail; tries go on), `absent` or `forbidden`
    (nothing to report to; `reason` says what is missing), `closed`. Counts are kept until they have arrived.
    """

    def __init__(self, database: str | Lines, version: str, every: float = 30.0, fail_on_loss: bool = False) -> None:
        """`every` is in seconds. With `fail_on_loss` the process gets SIGTERM when three beats in a row failed."""
        if not SHORTEST <= every <= LONGEST:
            raise BadInput(f"every must be from {SHORTEST} s, because each beat is a write, to a day; not {every}")
        self._owned = isinstance(database, str)
        self._lines = Lines(database) if isinstance(database, str) else database
        pace = Pace(round(every * SECOND))
        self._account = Account(version, pace.every)
        self._entry = self._account.open()
        lost = _leave if fail_on_loss else lambda: None
        self._beating = Beating(self._lines, self._account, pace, self._who, lost)

    @property
    def id(self) -> UUID | None:
        """The worker's id in the database; None until it is registered, another one if its row was pruned meanwhile."""
        return self._entry.worker

    @property
    def state(self) -> str:
        return self._beating.state

    @property
    def reason(self) -> str:
        return self._beating.reason

    @property
    def unsent(self) -> Parcel:
        """What is counted and not known to have arrived."""
        return self._account.unsent

    def success(self, count: int = 1) -> None:
        """Count successes for the next beat."""
        self._account.add(self._entry, Parcel(successes=_whole(count)))

    def error(self, message: str | None = None, count: int = 1) -> None:
        """Count errors for the next beat; without a message the last one stays."""
        self._account.add(self._entry, Parcel(errors=_whole(count), message=clean(message)))

    def progress(self, vectorizer: int | str, successes: int = 0, error: str | None = None) -> None:
        """Report a batch of one vectorizer, sent at once with a beat; the worker's own counts are not touched.

        The vectorizer goes by its id, or by the table it reads: where none does, `ai.vectorizer` gets a row, if
        `rota tracking install` made it.
        """
        self._account.add(self._entry, Parcel(progress=(batch(vectorizer, _whole(successes), error),)))
        self._beating.wake()

    def start(self) -> Self:
        """Register and beat, at once and then each interval, in the background."""
        self._beating.start()
        return self

    def close(self, timeout: float = 10.0) -> bool:
        """Call it when the last batch is settled: a final beat, then no more. Whether everything has arrived."""
        last = self._beating.close(timeout)
        if self._owned:
            self._lines.close()
        left = self.unsent
        if left != Parcel() and last != ABSENT:  # where nothing is installed nobody waits for them
            log.warning("closed with counts that did not arrive: %s", left)
        return left == Parcel()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _who(self) -> str:
        return f"worker {self.id or '(not registered)'}"


def batch(vectorizer: int | str, successes: int, error: str | None) -> Progress:
    """What one batch did."""
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
