"""The thread that brings an account to the database: at once, then each interval, and a last time at the end."""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING

from rota.core.times import SECOND
from rota.store.postgres.connection import in_one_line
from rota.store.postgres.driver import psycopg
from rota.tracking import capability

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.times import Duration
    from rota.tracking.backoff import Pace
    from rota.tracking.connections import Lines
    from rota.tracking.outbox import Account

STARTING, TRACKED, UNTRACKED, CLOSED = "starting", "tracked", "untracked", "closed"
ABSENT, FORBIDDEN = capability.ABSENT, capability.FORBIDDEN
_RETRY_AT_CLOSE = 0.2

log = logging.getLogger("rota.tracking")
_CHANCE = random.Random()  # noqa: S311 - jitter; the application's own sequence is left alone


class Beating:
    """`who` is told with every change of `state`; `lost` is called when three beats in a row failed.

    News is sent at once, but no sooner than `gap` seconds after the last. Where nobody asked for tracking (`is_asked`),
    nobody is told that there is nothing to report to.
    """

    def __init__(
        self,
        lines: Lines,
        account: Account,
        pace: Pace,
        who: Callable[[], object],
        lost: Callable[[], None] = lambda: None,
        gap: float = 0.0,
        is_asked: bool = True,
    ) -> None:
        self._lines = lines
        self._account = account
        self._pace = pace
        self._who = who
        self._lost = lost
        self._gap = gap
        self._is_asked = is_asked
        self._wake = threading.Event()
        self._closing: float | None = None
        self._ready = False
        self._thread = threading.Thread(target=self._run, name="rota tracking", daemon=True)
        self.state = STARTING
        self.reason = ""

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There is news."""
        self._wake.set()

    def close(self, timeout: float) -> str:
        """A final beat, tried again until the time is over; then no more. How it stood at the end."""
        if self._closing is None:
            self._closing = time.monotonic() + timeout
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout + 1)
        last, self.state = self.state, CLOSED
        return last

    def tick(self, chance: float, everyone: bool = True) -> Duration:
        """One try; how long until the next."""
        if self._account.is_empty:
            return self._pace.every
        try:
            with self._lines.borrow() as connection:
                found = capability.Presence(capability.READY) if self._ready else capability.look(connection)
                if found.state == capability.READY:
                    self._ready = True
                    self._account.beat(connection, everyone)
                elif self._account.is_registered:
                    raise psycopg.ProgrammingError(found.reason)
        except Exception as problem:  # whatever it is: a worker never fails because it is not seen
            self._ready = False
            self._failed(in_one_line(problem) or type(problem).__name__)
            return self._pace.delay(chance)
        if found.state != capability.READY:
            return self._not_there(found, chance)
        self._pace = self._pace.succeeded()
        self._become(TRACKED, "")
        return self._pace.delay(chance)

    def _not_there(self, found: capability.Presence, chance: float) -> Duration:
        self._account.forget_left()
        self._lines.close()
        self._become(found.state, found.reason)
        return self._pace.look_again(chance)

    def _run(self) -> None:
        due = 0.0
        while self._closing is None:
            self._wake.clear()
            began = time.monotonic()
            delay = self.tick(_CHANCE.random(), began >= due)
            if began >= due or not self._is_well:
                due = time.monotonic() + delay / SECOND
            self._wait(due, began + self._gap)
        # The final beat, tried again while there is time.
        while True:
            self.tick(_CHANCE.random())
            if not self._pace.failures or time.monotonic() + _RETRY_AT_CLOSE > self._closing:
                return
            time.sleep(_RETRY_AT_CLOSE)

    @property
    def _is_well(self) -> bool:
        return self.state in (STARTING, TRACKED) and not self._pace.failures

    def _wait(self, due: float, soonest: float) -> None:
        """Until the next beat is due, or there is news to send; a failing database is not hurried by that."""
        while self._closing is None and (left := due - time.monotonic()) > 0:
            if self._wake.wait(left):
                if self._is_well:
                    due = min(due, soonest)
                self._wake.clear()

    def _failed(self, reason: str) -> None:
        self._pace = self._pace.failed()
        if not self._pace.lost:
            log.info("a beat failed: %s", reason)
            return
        first = self.state != UNTRACKED
        self._become(UNTRACKED, reason)
        if first and self._closing is None:
            self._lost()

    def _become(self, state: str, reason: str) -> None:
        """Note how things stand, and say so when that has changed."""
        changed, self.state, self.reason = state != self.state, state, reason
        if not changed:
            return
        level = logging.WARNING if state in (UNTRACKED, FORBIDDEN) else logging.INFO
        if state == ABSENT and not self._is_asked:
            level = logging.DEBUG
        log.log(level, "%s: %s%s", self._who(), state, f": {reason}" if reason else "")
