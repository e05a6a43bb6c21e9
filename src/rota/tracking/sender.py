"""The thread that sends an outbox to the database: at once, then each interval, and a last time at the end.

Before it sends anything it reads from the catalogue whether its role may report at all.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING, cast

from rota.core import retry
from rota.core.record import Record
from rota.core.times import MINUTE, SECOND
from rota.store.postgres.connection import in_one_line, psycopg
from rota.tracking.connections import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.core.times import Duration
    from rota.tracking.connections import Connection, Connections
    from rota.tracking.outbox import Outbox

LOST_AFTER = 3
_DELAYS = retry.Backoff(first=SECOND, most=MINUTE)
READY, ABSENT, FORBIDDEN = "ready", "absent", "forbidden"
NEEDED = (
    "ai.vectorizer_worker_process",
    "ai.vectorizer_worker_progress",
    "ai._worker_start",
    "ai._worker_heartbeat",
    "ai._worker_progress",
)
STARTING, TRACKED, UNTRACKED, CLOSED = "starting", "tracked", "untracked", "closed"
_RETRY_AT_CLOSE = 0.2

log = logging.getLogger("rota.tracking")
_CHANCE = random.Random()  # noqa: S311 - jitter; the application's own sequence is left alone


class HeartbeatBackoff(Record):
    """One heartbeat per interval; after three failures in a row the worker is untracked and tries become rarer."""

    every: Duration
    failures: int = 0

    @property
    def lost(self) -> bool:
        return self.failures >= LOST_AFTER

    def failed(self) -> HeartbeatBackoff:
        return self.replace(failures=self.failures + 1)

    def succeeded(self) -> HeartbeatBackoff:
        return self.replace(failures=0)

    def delay(self, chance: float) -> Duration:
        """Return the time until the next try, never less than the interval. `chance` is drawn from [0, 1)."""
        if not self.lost:
            return self.every
        # Half of it is fixed, so that a thousand workers neither come back together nor immediately.
        return max(self.every, _DELAYS.delay(self.failures - LOST_AFTER + 1, 0.5 + chance / 2))

    def until_next_check(self, chance: float) -> Duration:
        """Return the time until the next check for tables that were missing."""
        return max(self.every, round(MINUTE * (0.5 + chance / 2)))


class Right(Record):
    """A privilege on an object, and whether the role has it."""

    kind: str
    name: str
    privilege: str
    allowed: bool
    role: str


class Capability(Record):
    """Whether a role can report: `ready`, `absent` or `forbidden`, and the objects or grants that are missing."""

    state: str
    reason: str = ""


def read_capability(connection: Connection) -> Capability:
    """Read from the catalogue whether the role of this connection can report."""
    rows = connection.execute(statement("client.rights")).fetchall()
    return judge([Right(*cast("tuple[str, str, str, bool, str]", row)) for row in rows])


def judge(rights: Iterable[Right]) -> Capability:
    """Decide what the rights in the catalogue allow."""
    rights = list(rights)
    present = {_qualified(right).partition("(")[0] for right in rights}
    missing = [name for name in NEEDED if name not in present]
    if missing:
        return Capability(ABSENT, f"not in this database: {', '.join(missing)}; `rota tracking install` makes them")
    grants = _grants([right for right in rights if not right.allowed])
    if grants:
        return Capability(FORBIDDEN, f"rights are missing: {'; '.join(grants)}")
    return Capability(READY)


def _grants(denied: list[Right]) -> list[str]:
    """Return the statements that would grant these rights, one per object."""
    privileges: dict[tuple[str, str], list[str]] = {}
    for right in denied:
        privileges.setdefault((_object(right), right.role), []).append(right.privilege)
    return [f"GRANT {', '.join(verbs)} ON {name} TO {_quoted(role)}" for (name, role), verbs in privileges.items()]


def _object(right: Right) -> str:
    return _qualified(right) if right.kind == "table" else f"{right.kind.upper()} {_qualified(right)}"


def _qualified(right: Right) -> str:
    return f"ai.{right.name}" if right.kind == "table" else right.name


def _quoted(role: str) -> str:
    plain = role.isascii() and role.isidentifier() and role == role.lower()
    return role if plain else '"' + role.replace('"', '""') + '"'


class Sender:
    """Sends heartbeats from its own thread and logs each change of `state`.

    Args:
        connections: The pool from which each transaction borrows a connection.
        outbox: The workers and their counts.
        backoff: When to send the next heartbeat.
        who: Names the workers in the log.
        lost: Called when three heartbeats in a row have failed.
        gap: The least number of seconds between two reports; after `wake` one is sent as soon as this allows.
        is_asked: Whether tracking was configured. Otherwise missing tables are logged at level DEBUG only.
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
                current = Capability(READY) if self._ready else read_capability(connection)
                if current.state == READY:
                    self._ready = True
                    self._outbox.send(connection, everyone)
                elif self._outbox.is_registered:
                    raise psycopg.ProgrammingError(current.reason)
        except Exception as problem:
            # Whatever it is: tracking must never end a worker.
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
        # The last heartbeat carries the counts of a worker that is about to end, so it is retried while there is time.
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
