"""Connections to PostgreSQL that notice a dead peer, the pool that trackers share, and the statements of `sql/`."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager
from functools import cache
from os.path import dirname, join
from typing import TYPE_CHECKING

from rota.core.errors import BadInput, Conflict, NotFound, RotaError, StoreError
from rota.store.engine.statements import read_statements
from rota.store.postgres.connection import SCHEMES, in_one_line, psycopg, without_schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    Connection = psycopg.Connection[tuple[object, ...]]

_FOLDER = join(dirname(__file__), "sql")
# A lost connection is noticed in seconds, not after the hours that TCP allows. The URL may override these.
_DEFAULTS = {
    "client_encoding": "utf8",
    "connect_timeout": "5",
    "fallback_application_name": "rota tracking",
    "keepalives_idle": "10",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
PATIENCE = 15.0  # seconds; longer than the time-outs that the statements set themselves


def check_url(url: str) -> str:
    """Check that this is a PostgreSQL URL. The message never repeats it: it may hold a password.

    The schema that a store's URL may name is left out: the tracking tables have their own.
    """
    if not url.startswith(SCHEMES):
        raise BadInput("tracking needs a PostgreSQL URL: write for example postgresql://user@host:5432/database")
    url = without_schema(url)
    try:
        ports = str(psycopg.conninfo.conninfo_to_dict(url).get("port") or "5432").split(",")
    except psycopg.Error:
        ports = ["unreadable"]
    if not all(port.isdigit() for port in ports if port):
        raise BadInput(
            "this is not a PostgreSQL URL: write for example postgresql://user@host:5432/database,"
            " with % codes for special characters in a password"
        )
    return url


def connect(url: str) -> Connection:
    """Connect in autocommit mode: every statement is its own transaction, except inside `transaction()`."""
    options = psycopg.conninfo.conninfo_to_dict(check_url(url))
    # Without prepared statements it also works through a pooler that hands out connections per transaction.
    settings = psycopg.conninfo.make_conninfo("", **{**_DEFAULTS, **options})
    connection = psycopg.connect(settings, autocommit=True, prepare_threshold=None)
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    return connection


@contextmanager
def opened(url: str) -> Iterator[Connection]:
    """Open a connection for one command; errors of PostgreSQL are raised as errors of rota, in one line."""
    try:
        with connect(url) as connection:
            yield connection
    except psycopg.Error as problem:
        raise explain(problem) from None


def explain(problem: psycopg.Error) -> RotaError:
    """Translate an error of PostgreSQL into one of rota."""
    errors = psycopg.errors
    text = in_one_line(problem)
    match problem:
        case errors.InvalidSchemaName() | errors.UndefinedTable() | errors.UndefinedFunction():
            return NotFound("there is no tracking in this database: `rota tracking install` makes it")
        case errors.InsufficientPrivilege():
            return StoreError(f"{text}: the owner gives a worker's rights with `rota tracking install --grant ROLE`")
        case errors.DependentObjectsStillExist():
            return Conflict(f"{text}: {in_one_line(problem.diag.message_detail or 'drop that first')}")
        case psycopg.OperationalError() if problem.sqlstate is None:
            return StoreError(f"PostgreSQL is out of reach: {in_one_line(problem)}")
    return StoreError(f"PostgreSQL refused: {text}")


@cache
def texts(noun: str) -> dict[str, str]:
    """Read the statements of `sql/NOUN.sql`, by name."""
    return read_statements(join(_FOLDER, f"{noun}.sql"))


def statement(name: str) -> bytes:
    """`statement("client.heartbeat")` is `heartbeat` in `sql/client.sql`."""
    noun, _, verb = name.partition(".")
    return texts(noun)[verb].encode()


def composed(name: str, /, **parts: psycopg.sql.Composable) -> psycopg.sql.Composed:
    """Fill the `{gaps}` of a statement with names or literals, quoted where needed."""
    noun, _, verb = name.partition(".")
    return psycopg.sql.SQL(texts(noun)[verb]).format(**parts)


class Connections:
    """A pool of connections, opened when they are needed and kept while they work.

    Args:
        url: A PostgreSQL URL.
        most: The largest number of connections.
        patience: After so many seconds a transaction is cut off; a tracker waits as long for a free connection.

    Raises:
        BadInput: This is not a PostgreSQL URL.

    Example:
        >>> with Connections("postgresql://host/stats", most=4) as connections:
        ...     trackers = [Tracker(connections, "1.4.0").start() for _ in range(100)]
    """

    def __init__(self, url: str, most: int = 1, patience: float = PATIENCE) -> None:
        self._url = check_url(url)
        self._patience = patience
        self._free = threading.BoundedSemaphore(most)
        self._idle: list[Connection] = []

    @contextmanager
    def borrow(self) -> Iterator[Connection]:
        """Borrow a connection for one transaction. After an error it is closed, and so are all idle ones."""
        if not self._free.acquire(timeout=self._patience):
            raise psycopg.OperationalError(f"no connection was free within {self._patience:g} s")
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = connect(self._url)
            try:
                with _cut_after(self._patience, connection):
                    yield connection
            except BaseException:
                # The idle connections go to the same server, and would most likely fail one by one.
                connection.close()
                self.close()
                raise
            self._idle.append(connection)
        finally:
            self._free.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections; the next borrower opens a new one."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                # Another thread took the last one.
                return


@contextmanager
def _cut_after(seconds: float, connection: Connection) -> Iterator[None]:
    """Shut the socket down when the block takes longer: a server that is suspended, not gone, would never answer."""
    timer = threading.Timer(seconds, _cut, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(connection: Connection) -> None:
    try:
        # A duplicate, because closing the Python socket must not close the descriptor that libpq still uses.
        with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):
        # The transaction ended and the connection was closed in the meantime.
        pass
