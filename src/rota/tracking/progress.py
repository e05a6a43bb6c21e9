"""Progress per vectorizer, sent in the transaction of the heartbeats without ever failing it."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from rota.core.errors import NotFound
from rota.store.postgres.connection import in_one_line, psycopg
from rota.tracking.connections import statement
from rota.tracking.schema import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.tracking.connections import Connection
    from rota.tracking.outbox import Progress

    Several = tuple[Progress, ...]

log = logging.getLogger("rota.tracking")


class _Deferred(Exception):
    """This report has to wait for the next heartbeat."""


class Reports:
    """Sends progress of vectorizers, and caches which vectorizer reads which table."""

    def __init__(self) -> None:
        self._ids: dict[str, int | None] = {}
        self._new: dict[str, int | None] = {}
        self._blocked = False
        self._logged: dict[int | str, str] = {}

    def send(self, connection: Connection, reports: Sequence[tuple[object, Several]]) -> dict[object, Several]:
        """Send reports in the order of vectorizers, to prevent deadlocks; return by worker what has to wait."""
        # Ids found in a transaction that was rolled back are not valid: their rows may have been rolled back with it.
        self._new, self._blocked = {}, False
        waiting: dict[object, Several] = {}
        identified = []
        for worker, progress in [(worker, progress) for worker, several in reports for progress in several]:
            try:
                identified.append((self._id(connection, progress.vectorizer), worker, progress))
            except _Deferred:
                waiting[worker] = (*waiting.get(worker, ()), progress)
        for id, worker, progress in sorted(identified, key=lambda report: (report[0] or 0, str(report[1]))):
            try:
                self._report(connection, worker, id, progress)
            except _Deferred:
                waiting[worker] = (*waiting.get(worker, ()), progress)
        return waiting

    def keep(self) -> None:
        """Keep the ids that were found, after the transaction that may have created their rows was committed."""
        self._ids.update(self._new)
        self._new = {}

    def _id(self, connection: Connection, vectorizer: int | str) -> int | None:
        """Return the id of a vectorizer; None if none reads that table, in which case its progress is dropped."""
        if isinstance(vectorizer, int):
            return vectorizer
        ids = {**self._ids, **self._new}
        if vectorizer in ids:
            return ids[vectorizer]
        try:
            with self._savepoint(connection, vectorizer, psycopg.ProgrammingError):
                self._new[vectorizer] = _find_or_create(connection, vectorizer)
        except (NotFound, psycopg.ProgrammingError) as problem:
            if isinstance(problem, psycopg.Error) and connection.closed:
                raise
            # A privilege may be granted later, so only a vectorizer that cannot be created is remembered as missing.
            if isinstance(problem, NotFound):
                self._new[vectorizer] = None
            self._warn_once(vectorizer, f"progress of table {vectorizer} is not reported: {in_one_line(problem)}")
        return self._new.get(vectorizer)

    def _report(self, connection: Connection, worker: object, id: int | None, progress: Progress) -> None:
        """Report progress. If the vectorizer was dropped, it goes to the one that reads its table now, if any."""
        if self._try_report(connection, worker, id, progress):
            return
        now = None if isinstance(progress.vectorizer, int) else self._id_now(connection, progress.vectorizer)
        if now == id or not self._try_report(connection, worker, now, progress):
            log.info("vectorizer %s was dropped: its progress is forgotten", id)

    def _try_report(self, connection: Connection, worker: object, id: int | None, progress: Progress) -> bool:
        """Report progress of vectorizer `id`; return whether that exists. For None there is nothing to report."""
        if id is None:
            return True
        try:
            with self._savepoint(connection, progress.vectorizer, psycopg.errors.ForeignKeyViolation):
                _call(connection, worker, progress.replace(vectorizer=id))
        except psycopg.errors.ForeignKeyViolation:
            return False
        return True

    def _id_now(self, connection: Connection, table: str) -> int | None:
        """Look up, without the cache, which vectorizer reads the table now."""
        for cache in (self._ids, self._new):
            cache.pop(table, None)
        return self._id(connection, table)

    @contextmanager
    def _savepoint(self, connection: Connection, vectorizer: int | str, known: type[psycopg.Error]) -> Iterator[None]:
        """Run a block in a savepoint; if it fails, only the block is undone and waits for the next heartbeat.

        Errors of type `known` are raised: the caller handles them.
        """
        if self._blocked:
            raise _Deferred
        try:
            with connection.transaction():
                yield
        except psycopg.Error as problem:
            if connection.closed or isinstance(problem, known):
                raise
            self._warn_once(vectorizer, f"progress of vectorizer {vectorizer} was refused: {in_one_line(problem)}")
            # The other reports may run into the same lock time-out; heartbeats must not wait for all of them.
            self._blocked = isinstance(problem, psycopg.OperationalError)
            raise _Deferred from None

    def _warn_once(self, vectorizer: int | str, text: str) -> None:
        """Log a warning about a vectorizer, unless it was the last one."""
        if self._logged.get(vectorizer) != text:
            self._logged[vectorizer] = text
            log.warning("%s", text)


def _find_or_create(connection: Connection, table: str) -> int:
    """Return the id of the vectorizer that reads this table; create it if `ai.vectorizer` is a table of ours."""
    connection.execute(statement("schema.one_at_a_time"))
    row = connection.execute(statement("client.vectorizer"), {"table": table}).fetchone()
    if row is None:
        if connection.execute(statement("client.is_ours"), {"mark": MARK}).fetchone() != (True,):
            raise NotFound("no vectorizer reads it, and ai.vectorizer is not ours to add one to: give the source an id")
        row = connection.execute(statement("client.make_vectorizer"), {"table": table}).fetchone()
    assert row is not None
    return cast("int", row[0])


def _call(connection: Connection, worker: object, progress: Progress) -> None:
    values = {"worker": worker, "vectorizer": progress.vectorizer, "message": None}
    if progress.successes is not None:
        connection.execute(statement("client.progress"), {**values, "successes": progress.successes})
    if progress.errors:
        values["message"] = progress.message
        connection.execute(statement("client.progress"), {**values, "successes": progress.beside})
    if progress.errors > 1:
        connection.execute(statement("client.more_errors"), {**values, "times": progress.errors - 1})
