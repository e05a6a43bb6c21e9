"""Send statements together, with a sync behind them (decision 32).

Only after a sync does the server count how long a transaction is left alone. So nothing is sent without one: a program
that is stopped anywhere in a transaction keeps others waiting no longer than the server's patience. psycopg's own
pipeline sends each statement by itself, as soon as it is written; this one uses the same libpq.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING

from rota.store.postgres.connection import psycopg

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from typing import Any

    from psycopg.pq.abc import PGresult

    from rota.store.engine.rows import Row
    from rota.store.postgres.connection import Connection
    from rota.store.postgres.dialect import Statement

    Listening = Generator[psycopg.waiting.Wait, psycopg.waiting.Ready | int, None]

_STATEMENTS = 256  # that a server keeps for one link
_MOST = 6000  # libpq sends from 8 KiB on by itself, whatever is behind it; there is more to a message than its values
_BIGINT, _BOOLEAN, _ANY = 20, 16, 0
_FATAL, _UNDONE = psycopg.pq.ExecStatus.FATAL_ERROR, psycopg.pq.ExecStatus.PIPELINE_ABORTED
_BAD = psycopg.pq.ConnStatus.BAD
_WAIT_R, _WAIT_RW, _READY_R = psycopg.waiting.Wait.R, psycopg.waiting.Wait.RW, psycopg.waiting.Ready.R


class Asked:
    """A statement with its values, and its result once that was received. `prepares`: only prepares it."""

    __slots__ = ("prepares", "result", "statement", "types", "values")

    def __init__(
        self, statement: Statement, values: list[bytes | None], types: tuple[int, ...], prepares: bool = False
    ) -> None:
        self.statement = statement
        self.values = values
        self.types = types
        self.prepares = prepares
        self.result: PGresult | None = None


class Pipeline:
    """One link's statements. `keeps`: the server itself is at the other end, and keeps what was prepared."""

    def __init__(self, connection: Connection, keeps: bool) -> None:
        self._connection = connection
        self._wire = connection.pgconn
        self._keeps = keeps
        self._names: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._numbers = count(1)
        self._unsent: list[Asked] = []
        self._rows = psycopg.adapt.Transformer(connection)

    def begin(self) -> None:
        self._unsent.clear()
        self._wire.enter_pipeline_mode()

    def end(self) -> None:
        """Leave the pipeline; queued statements are never sent."""
        self._unsent.clear()
        self._wire.exit_pipeline_mode()

    def ask(self, statement: Statement, params: Mapping[str, Any]) -> Asked:
        """Queue a statement; it is sent with the next `receive`."""
        values, types = _written([params[name] for name in statement.names])
        asked = Asked(statement, values, types)
        self._unsent.append(asked)
        return asked

    def receive(self) -> None:
        """Send all that was asked and wait for all answers. Raises the first problem, as psycopg has it."""
        sent = self._send()
        try:
            self._connection.wait(self._listen(sent))
        except psycopg.OperationalError:
            # Prefer the server's own reason for closing the connection, if it sent one.
            self._check(sent)
            raise
        self._check(sent)

    def rows(self, asked: Asked) -> list[Row]:
        """Return the rows of a statement whose result was received."""
        assert asked.result is not None
        self._rows.set_pgresult(asked.result)
        return self._rows.load_rows(0, asked.result.ntuples, tuple)

    def _send(self) -> list[Asked | None]:
        """Write it all, and a sync behind it; None for each sync."""
        sent: list[Asked | None] = []
        size = 0
        for asked in self._unsent:
            more = sum(map(len, filter(None, asked.values)), len(asked.statement.text))
            if size and size + more > _MOST:
                self._wire.pipeline_sync()
                sent.append(None)
                size = 0
            size += more
            self._write(asked, sent)
        self._unsent.clear()
        self._wire.pipeline_sync()
        sent.append(None)
        return sent

    def _write(self, asked: Asked, sent: list[Asked | None]) -> None:
        statement = asked.statement
        if not (self._keeps and statement.prepared):
            self._wire.send_query_params(statement.text, asked.values, asked.types)
        else:
            name = self._names.get((statement.text, asked.types))
            if name is None:
                name = self._prepare(statement, asked.types, sent)
            self._wire.send_query_prepared(name, asked.values)
        sent.append(asked)

    def _prepare(self, statement: Statement, types: tuple[int, ...], sent: list[Asked | None]) -> bytes:
        if len(self._names) == _STATEMENTS:
            oldest = self._names.pop(next(iter(self._names)))
            # libpq has a call for this only from version 17 on.
            self._wire.send_query_params(b"DEALLOCATE " + oldest, [])
            sent.append(Asked(statement, [], ()))
        name = self._names[statement.text, types] = b"rota_%d" % next(self._numbers)
        self._wire.send_prepare(name, statement.text, types)
        sent.append(Asked(statement, [], types, prepares=True))
        return name

    def _listen(self, sent: list[Asked | None]) -> Listening:
        wire = self._wire
        while wire.flush():
            if (yield _WAIT_RW) & _READY_R:
                wire.consume_input()
        for asked in sent:
            yield from self._until_read()
            result = wire.get_result()
            if asked is not None:
                # Every answer but that to a sync is followed by an empty result.
                asked.result = result
                yield from self._until_read()
                wire.get_result()
            if wire.status == _BAD:
                raise psycopg.OperationalError("the connection is lost")

    def _until_read(self) -> Listening:
        wire = self._wire
        while wire.is_busy():
            while not (yield _WAIT_R):
                pass
            wire.consume_input()

    def _check(self, sent: list[Asked | None]) -> None:
        problem = None
        for asked in sent:
            if asked is not None and asked.result is not None and asked.result.status in (_FATAL, _UNDONE):
                if asked.prepares:
                    self._names.pop((asked.statement.text, asked.types), None)
                if problem is None:
                    problem = psycopg.errors.error_from_result(asked.result)
        if problem is not None:
            raise problem


def _written(values: list[Any]) -> tuple[list[bytes | None], tuple[int, ...]]:
    """Values as text, and their types as far as they are not left to the server."""
    written: list[bytes | None] = []
    types = []
    for value in values:
        if value is None:
            written.append(None)
            types.append(_ANY)
        elif isinstance(value, str):
            # PostgreSQL's text cannot hold NUL, but what a handler reports may, and must still be settled.
            written.append(value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode())
            types.append(_ANY)
        elif isinstance(value, bool):
            written.append(b"true" if value else b"false")
            types.append(_BOOLEAN)
        elif isinstance(value, int):
            written.append(b"%d" % value)
            types.append(_BIGINT)
        elif isinstance(value, float | Decimal):  # such as a sum that the server itself gave
            written.append(str(value).encode())
            types.append(_ANY)
        else:
            raise TypeError(f"a statement takes numbers and texts, not {value!r:.80}")
    return written, tuple(types)
