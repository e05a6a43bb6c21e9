"""Changes that are part of a caller's own transaction, on the caller's own psycopg connection (decision 18).

Nobody knows when the caller commits, so what a crew needs is not held until then: no gate, no queue, no job that others
may settle; counters have a shard of their own. The caller's settings, rows and adapters are as they were afterwards.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from rota.core.errors import BadInput, SchemaMismatch, StoreAway
from rota.store.engine.transaction import SHARDS
from rota.store.migrate import LATEST, refuse_development
from rota.store.open import implicit_name
from rota.store.postgres import connection as connections
from rota.store.postgres.connection import psycopg
from rota.store.postgres.database import PostgresDatabase
from rota.store.postgres.dialect import as_statement
from rota.store.postgres.pipeline import Pipeline
from rota.store.postgres.session import CLOCK, Session, set_all, settings_for
from rota.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Any

    from rota.settings import Settings
    from rota.store.engine.database import Clock
    from rota.store.postgres.connection import Address
    from rota.store.postgres.session import How

    Given = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

T = TypeVar("T")
_IDLE = psycopg.pq.TransactionStatus.IDLE
_RELEASE = as_statement("RELEASE SAVEPOINT rota")
_FAILED = psycopg.pq.TransactionStatus.INERROR
# Callers seldom wait for each other, and never make a crew wait. Reconciling brings these shards together.
_SHARD = f"{SHARDS} + pg_backend_pid()"


def within(
    connection: Any, url: str, settings: Settings, work: Callable[[Store], T], begins: bool, clock: Clock | None = None
) -> T | Awaitable[T]:
    """What `work` answers, done in the caller's transaction; to be awaited where the connection is asynchronous."""
    where = connections.address(url, settings.schema)

    def do() -> T:
        with _same_link(connection) as same:
            return work(Store(BorrowedDatabase(where, same, begins, clock), settings, implicit_name()))

    if isinstance(connection, psycopg.AsyncConnection):
        return _within_async(connection, do)
    if not isinstance(connection, psycopg.Connection):
        kind = type(connection)
        raise BadInput(
            f"this takes a connection of psycopg 3, psycopg.connect(…), not {kind.__module__}.{kind.__name__}"
        )
    if _must_begin(connection):
        connection.execute("SELECT 1")
    with connection.lock:
        return do()


async def _within_async(connection: psycopg.AsyncConnection[Any], do: Callable[[], T]) -> T:
    if _must_begin(connection):
        await connection.execute("SELECT 1")
    async with connection.lock:
        doing = asyncio.ensure_future(asyncio.to_thread(do))
        try:
            return await asyncio.shield(doing)
        finally:
            # A cancelled caller waits for the thread, so that nobody else uses the connection meanwhile.
            await asyncio.wait([doing])


def _must_begin(connection: Given) -> bool:
    """Whether no transaction is open yet; refuses what would be none of the caller's."""
    status = connection.info.transaction_status
    if connection.closed:
        raise StoreAway("your connection is closed: nothing was changed")
    if connection.pgconn.pipeline_status:
        raise BadInput("your connection is in pipeline mode: leave the pipeline first")
    if status == _FAILED:
        raise BadInput("a statement has failed in your transaction: roll it back first")
    if status == _IDLE and connection.autocommit:
        raise BadInput("your connection commits by itself: use `with connection.transaction():` around both changes")
    return status == _IDLE


@contextmanager
def _same_link(given: Given) -> Iterator[connections.Connection]:
    """The caller's link as a connection with plain rows, whatever the caller has set."""
    wire = given.pgconn
    handlers = wire.notice_handler, wire.notify_handler
    same: connections.Connection = psycopg.Connection(wire)
    try:
        yield same
    finally:
        wire.notice_handler, wire.notify_handler = handlers
        # Only the caller may close the link.
        del same.pgconn


class BorrowedSession(Session):
    """Transactions within the caller's: each is a savepoint, and leaves the caller's settings as they were."""

    def __init__(self, where: Address, same: connections.Connection, begins: bool) -> None:
        super().__init__(where)
        self._handle = same
        self._pipeline = Pipeline(same, keeps=False)
        self._begins = begins
        self._kept: tuple[str, ...] = ()
        own = settings_for(where.schema)
        del own["idle_in_transaction_session_timeout"]
        restore = ", ".join(f"set_config('{name}', :{name}, true)" for name in own)
        self._restore = as_statement(f"SELECT {restore}")
        keep = "SELECT " + ", ".join(f"current_setting('{name}')" for name in own)
        number = "SELECT coalesce(max(number), 0) FROM migration"
        self._first = f"SAVEPOINT rota; {keep}; SELECT {set_all(own)}; {number}; SELECT {CLOCK}"

    def begin(self, how: How) -> None:
        answers: list[tuple[Any, ...]] = []
        with self._explained():
            cursor = self.connection.execute(self._first.encode())
            while True:
                answers += cursor.fetchall() if cursor.description else []
                if not cursor.nextset():
                    break
            self._kept, _, (number,), (self._began,) = answers
            self._check(number)
            self._begin_pipeline()
            self.in_transaction = True

    def commit(self) -> None:
        self.in_transaction = False
        try:
            self._pipeline.ask(self._restore, dict(zip(self._restore.names, self._kept, strict=True)))
            self._pipeline.ask(_RELEASE, {})
            self._pipeline.receive()
            self._end_pipeline()
        except psycopg.Error as problem:
            self.roll_back()
            raise connections.explain(problem, self._where.shown) from problem

    def roll_back(self) -> None:
        self.in_transaction = False
        try:
            self._end_pipeline()
            self.connection.execute(b"ROLLBACK TO SAVEPOINT rota; RELEASE SAVEPOINT rota")
        except (psycopg.Error, StoreAway):
            # Then the server undoes the caller's whole transaction.
            pass

    def say(self, text: str) -> None:
        """Send a notification, which PostgreSQL delivers at the caller's commit, once for each channel."""
        with self._explained():
            self.connection.execute(text.encode())

    @property
    def connection(self) -> connections.Connection:
        if self._handle is None or self._handle.closed:
            raise StoreAway("your connection broke: your transaction is undone, or it was being committed")
        return self._handle

    def _check(self, number: int) -> None:
        if number < LATEST or (number > LATEST and self._begins):
            self.roll_back()
            refuse_development(number, self._where.shown)
            what = "upgrade this program" if number > LATEST else "`rota migrate` brings it there"
            raise SchemaMismatch(f"{self._where.shown} has schema {number}, and this rota knows {LATEST}: {what}")

    def _give_up_link(self) -> None:
        """It is the caller's."""
        self._prefetched.clear()


class BorrowedDatabase(PostgresDatabase):
    """The database through the caller's connection, for the length of one change."""

    is_borrowed = True

    def __init__(self, where: Address, same: connections.Connection, begins: bool, clock: Clock | None = None) -> None:
        self._begin(where, BorrowedSession(where, same, begins), _SHARD, clock)
        self.version = LATEST

    def notify(self, events_only: bool = False, notified_early: bool = False) -> None:
        self.session.say("; ".join(f"NOTIFY {channel}" for channel in self.channels(events_only)))
