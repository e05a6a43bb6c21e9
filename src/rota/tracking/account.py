"""A worker's account: what it has counted, and the one transaction that brings it to the database exactly once.

The answer to a commit may be lost, and the functions take no marker. So every transaction first takes an advisory lock
that is this account's own, and waits for the answer: once a beat has been sent, its transaction holds the lock until it
has ended, one way or the other. Whoever holds the lock next reads the worker's beat count, and the count tells.
"""

from __future__ import annotations

import logging
import secrets
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from rota.store.postgres.driver import psycopg
from rota.store.postgres.link import in_one_line
from rota.tracking.parcel import Doubt, Parcel, Progress
from rota.tracking.postgres import statement

if TYPE_CHECKING:
    from uuid import UUID

    from rota.core.times import Duration
    from rota.tracking.postgres import Connection

log = logging.getLogger("rota.tracking")


class Account:
    """`add` from any thread; `beat` from one."""

    def __init__(self, version: str, every: Duration) -> None:
        self.worker: UUID | None = None
        self._start = {"version": version, "every": timedelta(microseconds=every)}
        self._key = secrets.randbits(63)
        self._lock = threading.Lock()
        self._pending = Parcel()
        self._doubt: Doubt | None = None

    def add(self, parcel: Parcel) -> None:
        with self._lock:
            self._pending = self._pending.plus(parcel)

    @property
    def unsent(self) -> Parcel:
        """What is not known to have arrived."""
        with self._lock:
            return self._doubt.parcel.plus(self._pending) if self._doubt else self._pending

    def beat(self, connection: Connection) -> None:
        """Register where needed, beat, and report progress, all or nothing. What fails is sent again next time."""
        taken: Parcel | None = None
        try:
            with connection.transaction():
                connection.execute(statement("client.fence"), {"key": self._key})
                worker, before = self._settle_doubt(connection)
                taken = self._take()
                if worker is None:
                    worker = self._register(connection)
                self._send(connection, worker, taken)
                sent, refused = _report(connection, worker, taken.progress)
                taken = taken.but(progress=sent)
                self._put_back(Parcel(progress=refused))
                self._doubt = Doubt(worker, before, taken)  # from here on only the count can tell
        except BaseException:
            if taken is not None and self._doubt is None:
                self._put_back(taken)
            raise
        self.worker, self._doubt = worker, None

    def _settle_doubt(self, connection: Connection) -> tuple[UUID | None, int | None]:
        """The worker and its beat count, None where it is not registered; a parcel that did not arrive is put back."""
        doubt = self._doubt
        worker = cast("UUID", doubt.worker) if doubt else self.worker
        row = connection.execute(statement("client.count"), {"worker": worker}).fetchone() if worker else None
        found = cast("int", row[0]) if row else None
        if doubt is not None:
            with self._lock:
                self._doubt = None
                if not doubt.arrived(found):
                    self._pending = doubt.parcel.plus(self._pending)
        if worker is not None and found is None:
            log.info("worker %s is not in the database any more: it registers anew", worker)
        return (worker, found) if found is not None else (None, None)

    def _take(self) -> Parcel:
        with self._lock:
            taken, self._pending = self._pending, Parcel()
        return taken

    def _put_back(self, parcel: Parcel) -> None:
        with self._lock:
            self._pending = parcel.plus(self._pending)

    def _register(self, connection: Connection) -> UUID:
        row = connection.execute(statement("client.start"), self._start).fetchone()
        assert row is not None
        return cast("UUID", row[0])

    def _send(self, connection: Connection, worker: UUID, parcel: Parcel) -> None:
        values = {"worker": worker, "successes": parcel.successes, "errors": parcel.errors, "message": parcel.message}
        connection.execute(statement("client.beat"), values)


Reports = tuple[Progress, ...]


def _report(connection: Connection, worker: UUID, progress: Reports) -> tuple[Reports, Reports]:
    """Send progress beside the beat, which it never fails; what was sent, and what was refused and waits."""
    sent: list[Progress] = []
    refused: list[Progress] = []
    for place, each in enumerate(progress):
        try:
            with connection.transaction():
                _call(connection, worker, each)
            sent.append(each)
        except psycopg.errors.ForeignKeyViolation:
            log.info("vectorizer %s was dropped: its progress is forgotten", each.vectorizer)
        except psycopg.Error as problem:
            if connection.closed:
                raise
            log.warning("progress of vectorizer %s was refused: %s", each.vectorizer, in_one_line(problem))
            if isinstance(problem, psycopg.OperationalError):
                # Behind a lock the others may wait as long; the beat must not wait for all of them.
                refused += progress[place:]
                break
            refused.append(each)
    return tuple(sent), tuple(refused)


def _call(connection: Connection, worker: UUID, progress: Progress) -> None:
    values = {"worker": worker, "vectorizer": progress.vectorizer, "message": None}
    if progress.successes is not None:
        connection.execute(statement("client.progress"), {**values, "successes": progress.successes})
    if progress.errors:
        values["message"] = progress.message
        connection.execute(statement("client.progress"), {**values, "successes": progress.beside})
    if progress.errors > 1:
        connection.execute(statement("client.more_errors"), {**values, "times": progress.errors - 1})
