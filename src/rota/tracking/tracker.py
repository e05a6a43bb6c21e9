"""`Tracker`: a worker reports that it lives, what it did and how far each vectorizer is."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import time
from typing import TYPE_CHECKING

from rota.core.errors import BadInput
from rota.core.times import SECOND
from rota.store.postgres.driver import psycopg
from rota.store.postgres.link import in_one_line
from rota.tracking import presence
from rota.tracking.account import Account
from rota.tracking.lines import Lines
from rota.tracking.pace import Pace
from rota.tracking.parcel import Parcel, Progress, clean

if TYPE_CHECKING:
    from typing import Self
    from uuid import UUID

    from rota.core.times import Duration

STARTING, TRACKED, UNTRACKED, CLOSED = "starting", "tracked", "untracked", "closed"
ABSENT, FORBIDDEN = presence.ABSENT, presence.FORBIDDEN
SHORTEST, LONGEST = 0.1, 86_400.0
_LARGEST_ID = 2**31 - 1
_RETRY_AT_CLOSE = 0.2

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
        self._pace = Pace(round(every * SECOND))
        self._account = Account(version, self._pace.every)
        self._fail_on_loss = fail_on_loss
        self._wake = threading.Event()
        self._closing: float | None = None
        self._ready = False
        self._thread = threading.Thread(target=self._run, name="rota tracking", daemon=True)
        self.state = STARTING
        self.reason = ""

    @property
    def id(self) -> UUID | None:
        """The worker's id in the database; None until it is registered, another one if its row was pruned meanwhile."""
        return self._account.worker

    @property
    def unsent(self) -> Parcel:
        """What is counted and not known to have arrived."""
        return self._account.unsent

    def success(self, count: int = 1) -> None:
        """Count successes for the next beat."""
        self._account.add(Parcel(successes=_whole(count)))

    def error(self, message: str | None = None, count: int = 1) -> None:
        """Count errors for the next beat; without a message the last one stays."""
        self._account.add(Parcel(errors=_whole(count), message=clean(message)))

    def progress(self, vectorizer: int, successes: int = 0, error: str | None = None) -> None:
        """Report a batch of one vectorizer, sent at once with a beat; the worker's own counts are not touched."""
        if not 0 <= vectorizer <= _LARGEST_ID:
            raise BadInput(f"{vectorizer} is not the id of a vectorizer")
        if error is None:
            batch = Progress(vectorizer, successes=_whole(successes))
        else:
            batch = Progress(vectorizer, beside=_whole(successes), errors=1, message=clean(error))
        self._account.add(Parcel(progress=(batch,)))
        self._wake.set()

    def start(self) -> Self:
        """Register and beat, at once and then each interval, in the background."""
        self._thread.start()
        return self

    def close(self, timeout: float = 10.0) -> bool:
        """Call it when the last batch is settled: a final beat, then no more. Whether everything has arrived."""
        if self._closing is None:
            self._closing = time.monotonic() + timeout
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout + 1)
        if self._owned:
            self._lines.close()
        self.state = CLOSED
        left = self.unsent
        if left != Parcel():
            log.warning("closed with counts that did not arrive: %s", left)
        return left == Parcel()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def tick(self, chance: float) -> Duration:
        """One try; how long until the next."""
        try:
            with self._lines.borrow() as connection:
                found = presence.Presence(presence.READY) if self._ready else presence.look(connection)
                if found.state != presence.READY and self.id is None:
                    self._become(found.state, found.reason)
                    return self._pace.look_again(chance)
                if found.state != presence.READY:
                    raise psycopg.ProgrammingError(found.reason)
                self._ready = True
                self._account.beat(connection)
        except Exception as problem:  # whatever it is: a worker never fails because it is not seen
            self._ready = False
            self._failed(in_one_line(problem) or type(problem).__name__)
        else:
            self._pace = self._pace.succeeded()
            self._become(TRACKED, "")
        return self._pace.delay(chance)

    def _run(self) -> None:
        while self._closing is None:
            self._wake.clear()
            due = time.monotonic() + self.tick(random.random()) / SECOND
            self._wait(due)
        # The final beat, tried again while there is time.
        while True:
            self.tick(random.random())
            if not self._pace.failures or time.monotonic() + _RETRY_AT_CLOSE > self._closing:
                return
            time.sleep(_RETRY_AT_CLOSE)

    def _wait(self, due: float) -> None:
        """Until the next beat is due, or there is progress to send; a failing database is not hurried by that."""
        while self._closing is None and (left := due - time.monotonic()) > 0:
            if self._wake.wait(left):
                if self.state == TRACKED and not self._pace.failures:
                    return
                self._wake.clear()

    def _failed(self, reason: str) -> None:
        self._pace = self._pace.failed()
        if not self._pace.lost:
            log.info("a beat failed: %s", reason)
            return
        first = self.state != UNTRACKED
        self._become(UNTRACKED, reason)
        if first and self._fail_on_loss and self._closing is None:
            log.error("tracking is lost, and the worker is to leave then")
            os.kill(os.getpid(), signal.SIGTERM)

    def _become(self, state: str, reason: str) -> None:
        """Note how things stand, and say so when that has changed."""
        changed, self.state, self.reason = state != self.state, state, reason
        if not changed:
            return
        level = logging.WARNING if state in (UNTRACKED, FORBIDDEN) else logging.INFO
        log.log(level, "worker %s is %s%s", self.id or "(not registered)", state, f": {reason}" if reason else "")


def _whole(count: int) -> int:
    if count < 0:
        raise BadInput(f"{count} is less than nothing: counts are 0 or more")
    return count
