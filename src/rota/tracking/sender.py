"""The thread that sends an outbox to the database: at once, then each interval, and a last time at the end."""

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
from rota.tracking.capability import ABSENT, FORBIDDEN, READY, Capability

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.times import Duration
    from rota.tracking.backoff import HeartbeatBackoff
    from rota.tracking.connections import Connections
    from rota.tracking.outbox import Outbox

STARTING, TRACKED, UNTRACKED, CLOSED = "starting", "tracked", "untracked", "closed"
_RETRY_AT_CLOSE = 0.2

log = logging.getLogger("rota.tracking")
_CHANCE = random.Random()  # noqa: S311 - jitter; the application's own sequence is left alone


class Sender:
    """Sends heartbeats from its own thread and logs each change of `state`.

    `who` names the workers in the log; `lost` is called when three heartbeats in a row failed. After `wake` a report is
    sent at once, but no sooner than `gap` seconds after the last. Unless tracking was asked for (`is_asked`), missing
    tables are logged at level DEBUG only.
    """

    def __init__(
        self,
        connections: Connections,
        outbox: Outbox,
        backoff: HeartbeatBackoff,
        who: Callable[[], object],
        lost: Callable[[], None] = lambda: None,
        gap: float = 0.0,
        is_asked: bool = True,
    ) -> None:
        self._connections = connections
        self._outbox = outbox
        self._backoff = backoff
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
        """Send soon: there is progress to report, or a worker has come or gone."""
        self._wake.set()

    def close(self, timeout: float) -> str:
        """Send a final heartbeat, retried until `timeout` is over; return the state before it is closed."""
        if self._closing is None:
            self._closing = time.monotonic() + timeout
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout + 1)
        last, self.state = self.state, CLOSED
        return last

    def tick(self, chance: float, everyone: bool = True) -> Duration:
        """Try once; return the time until the next try."""
        if self._outbox.is_empty:
            return self._backoff.every
        try:
            with self._connections.borrow() as connection:
                current = Capability(READY) if self._ready else capability.read(connection)
                if current.state == READY:
                    self._ready = True
                    self._outbox.send(connection, everyone)
                elif self._outbox.is_registered:
                    raise psycopg.ProgrammingError(current.reason)
        except Exception as problem:  # tracking must never end a worker
            self._ready = False
            self._failed(in_one_line(problem) or type(problem).__name__)
            return self._backoff.delay(chance)
        if current.state != READY:
            return self._incapable(current, chance)
        self._backoff = self._backoff.succeeded()
        self._become(TRACKED, "")
        return self._backoff.delay(chance)

    def _incapable(self, current: Capability, chance: float) -> Duration:
        self._outbox.forget_left()
        self._connections.close()
        self._become(current.state, current.reason)
        return self._backoff.until_next_check(chance)

    def _run(self) -> None:
        due = 0.0
        while self._closing is None:
            self._wake.clear()
            began = time.monotonic()
            delay = self.tick(_CHANCE.random(), began >= due)
            if began >= due or not self._is_well:
                due = time.monotonic() + delay / SECOND
            self._wait(due, began + self._gap)
        # The final heartbeat, retried while there is time.
        while True:
            self.tick(_CHANCE.random())
            if not self._backoff.failures or time.monotonic() + _RETRY_AT_CLOSE > self._closing:
                return
            time.sleep(_RETRY_AT_CLOSE)

    @property
    def _is_well(self) -> bool:
        return self.state in (STARTING, TRACKED) and not self._backoff.failures

    def _wait(self, due: float, soonest: float) -> None:
        """Wait until the next heartbeat is due, or sooner after `wake`, unless heartbeats fail."""
        while self._closing is None and (remaining := due - time.monotonic()) > 0:
            if self._wake.wait(remaining):
                if self._is_well:
                    due = min(due, soonest)
                self._wake.clear()

    def _failed(self, reason: str) -> None:
        self._backoff = self._backoff.failed()
        if not self._backoff.lost:
            log.info("a beat failed: %s", reason)
            return
        first = self.state != UNTRACKED
        self._become(UNTRACKED, reason)
        if first and self._closing is None:
            self._lost()

    def _become(self, state: str, reason: str) -> None:
        """Set the state and its reason, and log a change."""
        changed, self.state, self.reason = state != self.state, state, reason
        if not changed:
            return
        level = logging.WARNING if state in (UNTRACKED, FORBIDDEN) else logging.INFO
        if state == ABSENT and not self._is_asked:
            level = logging.DEBUG
        log.log(level, "%s: %s%s", self._who(), state, f": {reason}" if reason else "")
