"""Progress per vectorizer, sent beside the beats, which it never fails."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from rota.core.errors import NotFound
from rota.store.postgres.connection import in_one_line
from rota.store.postgres.driver import psycopg
from rota.tracking.postgres import statement
from rota.tracking.schema import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.tracking.delta import Progress
    from rota.tracking.postgres import Connection

    Several = tuple[Progress, ...]

log = logging.getLogger("rota.tracking")


class _Waits(Exception):
    """This report is for the next beat."""


class Reports:
    """Sends what workers did for vectorizers, and remembers which vectorizer reads which table."""

    def __init__(self) -> None:
        self._ids: dict[str, int | None] = {}
        self._new: dict[str, int | None] = {}
        self._blocked = False
        self._told: dict[int | str, str] = {}

    def send(self, connection: Connection, reports: Sequence[tuple[object, Several]]) -> dict[object, Several]:
        """Send them, by vectorizer, so that two who report never wait in a circle. By worker, what has to wait."""
        self._new, self._blocked = {}, False  # what an earlier beat found went with it, unless it was kept
        waiting: dict[object, Several] = {}
        known = []
        for worker, each in [(worker, each) for worker, several in reports for each in several]:
            try:
                known.append((self._id(connection, each.vectorizer), worker, each))
            except _Waits:
                waiting[worker] = (*waiting.get(worker, ()), each)
        for id, worker, each in sorted(known, key=lambda report: (report[0] or 0, str(report[1]))):
            try:
                self._report(connection, worker, id, each)
            except _Waits:
                waiting[worker] = (*waiting.get(worker, ()), each)
        return waiting

    def keep(self) -> None:
        """The beat has arrived, and with it the rows that it made: what it found is so for the next ones too."""
        self._ids.update(self._new)
        self._new = {}

    def _id(self, connection: Connection, vectorizer: int | str) -> int | None:
        """Which vectorizer it is; None where none reads that table, and then its progress is forgotten."""
        if isinstance(vectorizer, int):
            return vectorizer
        known = {**self._ids, **self._new}
        if vectorizer in known:
            return known[vectorizer]
        try:
            with self._step(connection, vectorizer, psycopg.ProgrammingError):
                self._new[vectorizer] = _found_or_made(connection, vectorizer)
        except (NotFound, psycopg.ProgrammingError) as problem:
            if isinstance(problem, psycopg.Error) and connection.closed:
                raise
            # A right may be given later. Where none is there and none is ours to make, none is looked for again.
            if isinstance(problem, NotFound):
                self._new[vectorizer] = None
            self._tell(vectorizer, f"progress of table {vectorizer} is not reported: {in_one_line(problem)}")
        return self._new.get(vectorizer)

    def _report(self, connection: Connection, worker: object, id: int | None, progress: Progress) -> None:
        """Report one. A vectorizer that was dropped has no progress; if another reads its table now, that one has."""
        if self._has(connection, worker, id, progress):
            return
        now = None if isinstance(progress.vectorizer, int) else self._id_now(connection, progress.vectorizer)
        if now == id or not self._has(connection, worker, now, progress):
            log.info("vectorizer %s was dropped: its progress is forgotten", id)

    def _has(self, connection: Connection, worker: object, id: int | None, progress: Progress) -> bool:
        """Report it as that of vectorizer `id`; whether there is such a one. None has nothing to be told."""
        if id is None:
            return True
        try:
            with self._step(connection, progress.vectorizer, psycopg.errors.ForeignKeyViolation):
                _call(connection, worker, progress.replace(vectorizer=id))
        except psycopg.errors.ForeignKeyViolation:
            return False
        return True

    def _id_now(self, connection: Connection, table: str) -> int | None:
        """Which vectorizer reads the table now, whatever was known."""
        for known in (self._ids, self._new):
            known.pop(table, None)
        return self._id(connection, table)

    @contextmanager
    def _step(self, connection: Connection, vectorizer: int | str, met: type[psycopg.Error]) -> Iterator[None]:
        """One step of the beat's transaction, which alone is undone when it fails, and waits for the next beat then.

        An error that the caller has met before is left to it.
        """
        if self._blocked:
            raise _Waits
        try:
            with connection.transaction():
                yield
        except psycopg.Error as problem:
            if connection.closed or isinstance(problem, met):
                raise
            self._tell(vectorizer, f"progress of vectorizer {vectorizer} was refused: {in_one_line(problem)}")
            # Behind a lock the others may wait as long; the beat must not wait for all of them.
            self._blocked = isinstance(problem, psycopg.OperationalError)
            raise _Waits from None

    def _tell(self, vectorizer: int | str, text: str) -> None:
        """Say it once, and again when it is something else."""
        if self._told.get(vectorizer) != text:
            self._told[vectorizer] = text
            log.warning("%s", text)


def _found_or_made(connection: Connection, table: str) -> int:
    """The id of the vectorizer that reads this table. In a table that we made, it is made."""
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
