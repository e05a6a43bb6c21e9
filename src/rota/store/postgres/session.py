"""One connection, opened again when it was lost, and its transactions. It relies on nothing that a pooler could lose.

Whatever a transaction needs (schema, plans, limits on waiting) is set once where the server itself is at the other end,
and otherwise in its first message, which also takes the gate that all who write share, and the clock. Statements are
sent when an answer is needed, all at once.
"""

from __future__ import annotations

import time
import zlib
from functools import cache
from typing import TYPE_CHECKING

from rota.core.errors import BadInput, InDoubt, StoreAway, StoreError
from rota.store.postgres import connection
from rota.store.postgres.connection import psycopg
from rota.store.postgres.dialect import Statement, as_statement
from rota.store.postgres.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, NoReturn

    from rota.core.times import Instant
    from rota.store.engine.rows import Row
    from rota.store.postgres.connection import Address, Connection
    from rota.store.postgres.pipeline import Asked

    How = tuple[str, str]  # how a transaction begins, and the gate that it takes

LOCK_TIMEOUT = "30s"
# A program that is stopped in the middle of a transaction must not keep others waiting for long: their leases run too.
IDLE_TIMEOUT = "5s"
CLOCK = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
_KEEP, _ANEW = (f"set_config('plan_cache_mode', 'force_{kind}_plan', true)" for kind in ("generic", "custom"))
_BEGUN, _CLOCK = as_statement(f"SELECT {_KEEP}, {CLOCK}"), as_statement(f"SELECT {CLOCK}")
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_MAKING = 0x726F7461  # "rota"
_IDLE = psycopg.pq.TransactionStatus.IDLE
_COMMIT = Statement(b"COMMIT", prepared=False)  # so that whoever looks at the wire sees one
_forsaken: list[Connection] = []
_DISCARD_PLANS = Statement(b"DISCARD PLANS", prepared=False)
_SLOW, _REPLAN_EVERY = 0.02, 10.0
_plain = cache(as_statement)
# How statements are planned (decision 25). A table may be a hundred times as large as when it was last looked at, so a
# look at an index must win on a table of one page already: a page of a scan costs ten times one found by an index.
# JIT would compile for longer than any of these statements runs.
PLANS = {"jit": "off", "seq_page_cost": "10", "random_page_cost": "1"}


def settings_for(schema: str) -> dict[str, str]:
    """Return the settings that every transaction of rota's makes for itself."""
    return {
        "search_path": f"{schema}, pg_temp",
        "plan_cache_mode": "force_custom_plan",
        **PLANS,
        "lock_timeout": LOCK_TIMEOUT,
        "idle_in_transaction_session_timeout": IDLE_TIMEOUT,
    }


def set_all(settings: Mapping[str, str], local: bool = True) -> str:
    """What sets them, as columns to select: for the transaction, or for as long as the link lasts."""
    return ", ".join(f"set_config('{name}', '{value}', {local})" for name, value in settings.items())


def notify_statement(channels: Iterable[str]) -> str:
    """Return the statement that notifies listeners, as a transaction of its own that waits for no disk."""
    notifications = ", ".join(f"pg_notify('{channel}', '')" for channel in channels)
    return f"SELECT set_config('synchronous_commit', 'off', true), {notifications}"


class Session:
    """Runs texts; every error of psycopg leaves it as one of ours."""

    def __init__(self, where: Address) -> None:
        self.is_direct = False
        self.in_transaction = False
        self._where = where
        self._handle: Connection | None = None
        self._pipeline: Pipeline
        self._prefetched: dict[tuple[object, ...], Asked] = {}
        self._clock: Asked | None = None
        self._began: Instant = 0
        self._is_notifying = False
        self._is_spent = False
        self._keeps = False
        self._each_time = ""
        self._was_slow = False
        self._replan_from = 0.0
        self.reading: How = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ""
        self.shared: How = _WRITE, f"LOCK TABLE {where.schema}.gate IN ROW EXCLUSIVE MODE"
        self.exclusive: How = _WRITE, f"LOCK TABLE {where.schema}.gate IN SHARE ROW EXCLUSIVE MODE"
        # Only until the gate is there: anybody could take this lock, and then delay nothing but the making of a schema.
        self.making: How = (
            _WRITE,
            f"SELECT pg_advisory_xact_lock({_MAKING}, {zlib.crc32(where.schema.encode()) - (1 << 31)})",
        )

    def begin(self, how: How) -> None:
        """Nothing is waited for: the answer comes with that to the first question, and so does an error."""
        with self._explained():
            self._begin_pipeline()
            self._clock = self._ask_to_begin(how)
            self.in_transaction, self._keeps = True, self.is_direct

    @property
    def began(self) -> Instant:
        """When the transaction began, by the server's clock."""
        if self._clock is not None:
            with self._explained():
                ((*_, self._began),) = self._answer(self._clock)
            self._clock = None
        return self._began

    def commit(self) -> None:
        self.in_transaction = False
        if self._handle is None or self._handle.closed:
            raise StoreAway(f"{self._where.shown} went away before a commit: nothing was changed")
        try:
            commit = self._pipeline.ask(_COMMIT, {})
            self._receive()
            self._end_pipeline()
        except psycopg.Error as problem:
            if connection.is_away(problem):
                self._give_up_link()
                raise self._in_doubt(problem) from problem
            self.roll_back()
            raise connection.explain(problem, self._where.shown) from problem
        if self._is_spent:
            self._give_up_link()
        if commit.result is None or commit.result.command_status != b"COMMIT":
            raise StoreError(f"{self._where.shown} undid a change in which something had failed before")

    def roll_back(self) -> None:
        """What was not sent never will be; where more is lost, the server undoes what its client does not end."""
        self.in_transaction = False
        try:
            self._end_pipeline()
            if self._handle is not None and self._handle.pgconn.transaction_status != _IDLE:
                self.say("ROLLBACK")
        except psycopg.Error:
            # The caller already knows what failed.
            self._give_up_link()
        if self._is_spent:
            self._give_up_link()

    def run(self, statement: Statement, params: Mapping[str, Any]) -> list[Row]:
        """A statement of a transaction, whose answer is waited for if it has one; or one that is a transaction."""
        with self._explained():
            if not self.in_transaction:
                return self._run_alone(statement, params)
            prefetched = self._prefetched.pop((statement.text, *params.items()), None) if self._prefetched else None
            asked = prefetched or self._ask(statement, params)
            return self._answer(asked) if statement.answers else []

    def run_whole(self, statement: Statement, params: Mapping[str, Any]) -> list[Row]:
        """A change that is one statement, behind the gate that all who write share, in one exchange of messages."""
        try:
            return self._in_one(self.shared, statement, params)
        except psycopg.Error as problem:
            self.roll_back()
            if connection.is_away(problem):
                self._give_up_link()
                raise self._in_doubt(problem) from problem
            raise connection.explain(problem, self._where.shown) from problem
        except BaseException as problem:
            self.explain(problem)
            raise

    def prefetch(self, statement: Statement, params: Mapping[str, Any]) -> None:
        """Send a statement of a transaction ahead, unless it was sent; running the same one takes its answer."""
        asked = (statement.text, *params.items())
        if asked not in self._prefetched:
            with self._explained():
                self._prefetched[asked] = self._ask(statement, params)

    def script(self, statements: list[str]) -> None:
        """Statements without parameters, in a transaction. They may change what others mean, so its link ends with it:

        what was prepared before may be wrong.
        """
        self._is_spent = True
        with self._explained():
            for text in statements:
                self._pipeline.ask(Statement(text.encode(), prepared=False), {})
            self._pipeline.receive()

    def say(self, text: str) -> None:
        """A message of its own that is not waited for, and may be lost; the next use takes its answer off."""
        try:
            self.connection.pgconn.send_query(text.encode())
            self._is_notifying = True
        except (psycopg.Error, StoreError):
            self._give_up_link()

    @property
    def connection(self) -> Connection:
        """The connection, opened again if it was lost; but not in the middle of a transaction."""
        if self._handle is None or self._handle.closed:
            if self.in_transaction:
                raise StoreAway(f"{self._where.shown} went away in the middle of a change: nothing was changed")
            self.connect()
            assert self._handle is not None
        if self._is_notifying:
            self._is_notifying = False
            try:
                connection.take_answers(self._handle)
            except psycopg.Error:
                self._give_up_link()
                return self.connection
        return self._handle

    def connect(self) -> None:
        self._is_notifying = self._is_spent = False
        try:
            self._handle = connection.connect(self._where.conninfo)
            self.is_direct = connection.is_direct(self._handle)
            settings = settings_for(self._where.schema)
            if self.is_direct:
                connection.watch_from_there(self._handle)
                self._handle.execute(f"SELECT {set_all(settings, local=False)}".encode())
            self._each_time = set_all(settings)
            self._pipeline = Pipeline(self._handle, self.is_direct)
        except psycopg.Error as problem:
            self._give_up_link()
            raise connection.explain(problem, self._where.shown) from problem

    def close(self) -> None:
        self._give_up_link()

    def forsake(self) -> None:
        """In a forked child: the connection is the parent's, not ours to use or close. Its transaction is, too."""
        if self.in_transaction:
            self._pipeline = _Forsaken(self._where.shown)
        self._prefetched.clear()
        if self._handle is not None:
            _forsaken.append(self._handle)
            self._handle = None

    def _ask(self, statement: Statement, params: Mapping[str, Any]) -> Asked:
        if statement.kept != self._keeps and self.is_direct:
            self._keeps = statement.kept
            self._pipeline.ask(_plain(f"SELECT {_KEEP if statement.kept else _ANEW}"), {})
        return self._pipeline.ask(statement, params)

    def _answer(self, asked: Asked) -> list[Row]:
        if asked.result is None:
            self._receive()
        return self._pipeline.rows(asked)

    def _run_alone(self, statement: Statement, params: Mapping[str, Any]) -> list[Row]:
        """One statement as a transaction of its own."""
        if not self.is_direct:
            return self._in_one(("BEGIN", ""), statement, params)
        self._begin_pipeline()
        asked = self._pipeline.ask(statement, params)
        return self._received(asked)

    def _in_one(self, how: How, statement: Statement, params: Mapping[str, Any]) -> list[Row]:
        self._begin_pipeline()
        self._ask_to_begin(how)
        asked = self._pipeline.ask(statement, params)
        self._pipeline.ask(_COMMIT, {})
        return self._received(asked)

    def _ask_to_begin(self, how: How) -> Asked:
        """Settings come before the gate, which is waited for as they say; the clock, last, is read behind it."""
        begin, gate = how
        self._pipeline.ask(_plain(begin), {})
        if not self.is_direct:
            self._pipeline.ask(_plain(f"SELECT {self._each_time}"), {})
        if gate:
            self._pipeline.ask(_plain(gate), {})
        return self._pipeline.ask(_BEGUN if self.is_direct else _CLOCK, {})

    def _received(self, asked: Asked) -> list[Row]:
        self._receive()
        found = self._pipeline.rows(asked) if asked.statement.answers else []
        self._end_pipeline()
        return found

    def _receive(self) -> None:
        began = time.monotonic()
        self._pipeline.receive()
        self._was_slow = self._was_slow or time.monotonic() - began > _SLOW

    def _in_doubt(self, problem: psycopg.Error) -> InDoubt:
        return InDoubt(
            f"{self._where.shown} went away during a commit, which may or may not stand: "
            f"{connection.in_one_line(problem)}"
        )

    def _begin_pipeline(self) -> None:
        """Begin a pipeline; open the connection again first if it was lost while nobody used it."""
        if connection.is_lost(self.connection):
            self._give_up_link()
        if not self.connection.closed:
            self._pipeline.begin()
            self._replan()

    def _replan(self) -> None:
        """Drop kept plans when an answer was slow: one made while its table was empty reads all of a full one."""
        if self._was_slow and self.is_direct and time.monotonic() >= self._replan_from:
            self._was_slow, self._replan_from = False, time.monotonic() + _REPLAN_EVERY
            self._pipeline.ask(_DISCARD_PLANS, {})
            # In a message of its own: a transaction behind it could not choose its isolation level.
            self._pipeline.receive()

    def _end_pipeline(self) -> None:
        self._prefetched.clear()
        self._clock = None
        if self._handle is not None and not self._handle.closed:
            self._pipeline.end()

    def _give_up_link(self) -> None:
        """Close what is left of the connection; the next use opens another."""
        self._clock = None
        self._prefetched.clear()
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _explained(self) -> _Explained:
        return _Explained(self)

    def explain(self, problem: BaseException | None) -> None:
        """Raise an error of psycopg as one of rota's; clear away what an error left of a statement or connection."""
        if problem is not None and not self.in_transaction:
            self.roll_back()
        if isinstance(problem, psycopg.Error):
            if connection.is_away(problem):
                self._give_up_link()
            raise connection.explain(problem, self._where.shown) from problem
        if isinstance(problem, UnicodeEncodeError):
            raise BadInput(f"this text is not valid Unicode: {problem.object!r:.80}") from None


class _Forsaken(Pipeline):
    """Refuses every statement of a transaction within which the process was forked."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def ask(self, statement: Statement, params: Mapping[str, Any]) -> Asked:
        return self.receive()

    def receive(self) -> NoReturn:
        raise StoreError(
            f"{self._shown}: this process was forked within a transaction, which stays its parent's:"
            " fork outside of transactions"
        )


class _Explained:
    """A block whose errors are explained."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[BaseException] | None, problem: BaseException | None, __: object) -> None:
        self._session.explain(problem)
