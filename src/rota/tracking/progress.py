"""Progress per vectorizer, sent beside the beats, which it never fails."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from rota.core.errors import NotFound
from rota.store.postgres.driver import psycopg
from rota.store.postgres.link import in_one_line
from rota.tracking.postgres import statement
from rota.tracking.schema import MARK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.tracking.parcel import Progress
    from rota.tracking.postgres import Connection

    Several = tuple[Progress, ...]

log = logging.getLogger("rota.tracking")


class Reports:
    """Sends what workers did for vectorizers, and remembers which vectorizer reads which table."""

    def __init__(self) -> None:
        self._ids: dict[str, int | None] = {}
        self._told: dict[int | str, str] = {}

    def send(self, connection: Connection, reports: Sequence[tuple[object, Several]]) -> dict[object, Several]:
        """Send them, by vectorizer, so that two who report never wait in a circle. By worker, what has to wait."""
        waiting: dict[object, Several] = {}
        named = [(worker, each) for worker, several in reports for each in several]
        known = [(self._id(connection, each), worker, each) for worker, each in named]
        blocked = False
        for id, worker, each in sorted(known, key=lambda report: (report[0] or 0, str(report[1]))):
            if id is None:
                continue
            problem = None if blocked else _try(connection, worker, each.but(vectorizer=id))
            if problem is not None:
                self._tell(each.vectorizer, f"progress of vectorizer {id} was refused: {in_one_line(problem)}")
                # Behind a lock the others may wait as long; the beat must not wait for all of them.
                blocked = isinstance(problem, psycopg.OperationalError)
            if blocked or problem is not None:
                waiting[worker] = (*waiting.get(worker, ()), each)
        return waiting

    def _id(self, connection: Connection, progress: Progress) -> int | None:
        """Which vectorizer it is; None where none reads that table, and then its progress is forgotten."""
        table = progress.vectorizer
        if isinstance(table, int):
            return table
        if table not in self._ids:
            try:
                with connection.transaction():
                    self._ids[table] = _found_or_made(connection, table)
            except (NotFound, psycopg.Error) as problem:
                if connection.closed:
                    raise
                self._ids[table] = None
                self._tell(table, f"progress of table {table} is not reported: {in_one_line(problem)}")
        return self._ids[table]

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


def _try(connection: Connection, worker: object, progress: Progress) -> psycopg.Error | None:
    """Report one; why it was refused, if it was. A vectorizer that was dropped has no progress."""
    try:
        with connection.transaction():
            _call(connection, worker, progress)
    except psycopg.errors.ForeignKeyViolation:
        log.info("vectorizer %s was dropped: its progress is forgotten", progress.vectorizer)
    except psycopg.Error as problem:
        if connection.closed:
            raise
        return problem
    return None


def _call(connection: Connection, worker: object, progress: Progress) -> None:
    values = {"worker": worker, "vectorizer": progress.vectorizer, "message": None}
    if progress.successes is not None:
        connection.execute(statement("client.progress"), {**values, "successes": progress.successes})
    if progress.errors:
        values["message"] = progress.message
        connection.execute(statement("client.progress"), {**values, "successes": progress.beside})
    if progress.errors > 1:
        connection.execute(statement("client.more_errors"), {**values, "times": progress.errors - 1})
