"""PostgreSQL through psycopg: one connection, opened again when it was lost, and nothing that a pooler could lose.

Whatever a transaction relies on (schema, limits on waiting) is set in its first message, together with the gate that
all who write share, and the clock.
"""

from __future__ import annotations

import os
import re
import weakref
import zlib
from itertools import count
from os.path import dirname, join
from typing import TYPE_CHECKING

from rota.core.errors import BadInput, InDoubt, StoreAway, StoreError
from rota.store.postgres import link
from rota.store.postgres.driver import psycopg
from rota.store.postgres.listener import Listener
from rota.store.postgres.log import PostgresLog
from rota.store.postgres.roles import KINDS, role
from rota.store.statements import Statements, read_statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from rota.core.times import Instant
    from rota.store.postgres.link import Address, Connection
    from rota.store.rows import Row
    from rota.store.sqlite.clock import Clock

    Cursor = psycopg.Cursor[Row]

GAPS = {
    "int64": "BIGINT",
    "identity": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "for_update": "FOR UPDATE",
    "skip_locked": "FOR UPDATE SKIP LOCKED",
    "greatest": "greatest",
}
SHARDS = 16
LOCK_TIMEOUT = "30s"
# A program that is stopped in the middle of a transaction must not keep others waiting for long.
IDLE_TIMEOUT = "10s"
_GATE = 0x726F7461  # "rota"
_FOLDER = dirname(__file__)
_CLOCK = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")

_connections = count(os.getpid())
_open_databases: weakref.WeakSet[PostgresDatabase] = weakref.WeakSet()
_forsaken: list[Connection] = []


def own_texts() -> dict[str, str]:
    """The statements that only PostgreSQL has, or has in a text of its own."""
    own = read_statements(join(_FOLDER, "overrides.sql"))
    for noun in ("schema", "log", "role", "server"):
        texts = read_statements(join(_FOLDER, f"{noun}.sql"))
        own.update({f"{noun}.{verb}": text for verb, text in texts.items()})
    return own


class _Transaction:
    """`with` for a transaction."""

    def __init__(self, database: PostgresDatabase, begin: str) -> None:
        self._database = database
        self._begin = begin

    def __enter__(self) -> None:
        self._database._begin(self._begin)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._database._commit()
        else:
            self._database._roll_back()


class PostgresDatabase:
    """`execute` and `many` by statement name; `write` for a transaction that changes, `read` for one that does not."""

    dialect = "postgres"
    locks_rows = True

    def __init__(self, where: Address, clock: Clock | None = None) -> None:
        self.path, self.url = where.shown, where.url
        self.schema = where.schema
        self.log = PostgresLog(self)
        self._where = where
        self._clock = clock
        self._own = own_texts()
        mine = {"schema": where.schema, "shard": str(next(_connections) % SHARDS)}
        mine.update({kind: role(where.schema, kind) for kind in KINDS})
        self._statements = Statements({**GAPS, **mine}, self._own)
        self._texts: dict[str, str] = {}
        self._handle: Connection | None = None
        self._began: Instant = 0
        self._in_transaction = False
        self._is_ringing = False
        self._foreseen: dict[tuple[object, ...], Cursor] = {}
        self.is_direct = False
        self._pipeline: AbstractContextManager[object] | None = None
        gate = f"{_GATE}, {zlib.crc32(where.schema.encode()) - (1 << 31)}"
        self._settings = (
            f"SELECT set_config('search_path', '{where.schema}, pg_temp', true),"
            f" set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true),"
            f" set_config('lock_timeout', '{LOCK_TIMEOUT}', true),"
            f" set_config('idle_in_transaction_session_timeout', '{IDLE_TIMEOUT}', true)"
        )
        begin = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {self._settings}"
        self._shared = f"{begin}; SELECT pg_advisory_xact_lock_shared({gate}); {_CLOCK}"
        self._alone = f"{begin}; SELECT pg_advisory_xact_lock({gate}); {_CLOCK}"
        self._moment = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {self._settings}; {_CLOCK}"
        self._connect()
        self.version = self.refresh_version()
        _open_databases.add(self)

    @property
    def beside(self) -> str:
        """Files of this host for this database: in the user's own folder for such, named after the database."""
        folder = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/rota-{os.getuid()}", "rota")
        os.makedirs(folder, 0o700, exist_ok=True)
        return os.path.join(folder, f"{zlib.crc32(self.path.encode()):08x}-{self.schema}")

    def now(self) -> Instant:
        return self.moment()[0]

    def wall(self) -> Instant:
        return self.moment()[1]

    def moment(self) -> tuple[Instant, Instant]:
        """The server's clock, or in a transaction what it said when that began."""
        if self._clock is not None:
            return self._clock.now(), self._clock.wall()
        if not self._in_transaction:
            with self.read():
                return self._began, self._began
        return self._began, self._began

    def execute(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """The rows of one statement; parameters by name."""
        text = self._text(name)
        if not self._in_transaction:
            return self._run_alone(text, params)
        foreseen = self._foreseen.pop((name, *params.items()), None) if self._foreseen else None
        return self._run(text, params, foreseen)

    def foresee(self, name: str, params: Mapping[str, Any]) -> None:
        """Send a statement of a transaction without waiting; executing the same takes its answer."""
        with self._explained():
            cursor = self._connection.execute(self._text(name).encode(), params, prepare=self.is_direct)
            self._foreseen[name, *params.items()] = cursor

    def many(self, name: str, rows: Iterable[Row]) -> list[Row]:
        """One statement for many rows; parameters in the order in which the common text first names them."""
        given = list(rows)
        if not given:
            return []
        names = _names(self._text(name))
        if f"{name} many" in self._own:
            columns = map(_array, zip(*given, strict=True))
            return self.execute(f"{name} many", dict(zip(names, columns, strict=True)))
        with self._explained():
            return [answer for row in given for answer in self.execute(name, dict(zip(names, row, strict=True)))]

    def script(self, text: str, number: int = 0) -> None:
        """Run several statements, and what PostgreSQL adds to migration `number`; only for migrations."""
        if f"schema.after_{number}" in self._own:
            text += ";" + self._statements.text(f"schema.after_{number}")
        with self._explained():
            lines = [line for line in text.splitlines() if not line.startswith("--")]
            for statement in "\n".join(lines).split(";"):
                if statement.strip():
                    self._connection.execute(statement.encode())

    def text(self, name: str) -> str:
        return self._statements.text(name)

    def gaps(self) -> Mapping[str, str]:
        return GAPS

    def write(self, alone: bool = False) -> _Transaction:
        """A transaction that changes things: whole when the block ends, undone when it raises."""
        return _Transaction(self, self._alone if alone else self._shared)

    def read(self) -> _Transaction:
        """A transaction that sees one moment."""
        return _Transaction(self, self._moment)

    def ring(self, events_only: bool = False) -> None:
        """One message after the commit: inside the transaction its lock would make writers wait for each other.

        Its answer is not waited for; the next use of the connection takes it off.
        """
        bells = [f"{self.schema}_events", *([] if events_only else [f"{self.schema}_work"])]
        notify = "; ".join(f"NOTIFY {bell}" for bell in bells)
        try:
            self._connection.pgconn.send_query(f"BEGIN; SET LOCAL synchronous_commit TO off; {notify}; COMMIT".encode())
            self._is_ringing = True
        except psycopg.Error:  # a hint; all who listen poll too
            self._give_up_link()

    def listen(self, events: bool = False) -> Listener:
        return Listener(self._where.conninfo, f"{self.schema}_{'events' if events else 'work'}")

    def close(self) -> None:
        _open_databases.discard(self)
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def refresh_version(self) -> int:
        """The schema's number as it is now, which another program may have raised; 0 for none."""
        ((there, _),) = self.execute("schema.version", {"schema": self.schema})
        self.version = self.execute("schema.number", {})[0][0] if there else 0
        return self.version

    def set_version(self, version: int) -> None:
        """The table of migrations tells it already."""
        self.version = version

    def integrity(self) -> str:
        """`ok`, or what is wrong, as far as the server can tell by itself."""
        ((invalid,),) = self.execute("schema.invalid", {"schema": self.schema})
        return f"{invalid} indexes are not whole: REINDEX SCHEMA {self.schema}" if invalid else "ok"

    def is_foreign(self) -> bool:
        """Whether tables stand in the schema that are not ours."""
        ((there, tables),) = self.execute("schema.version", {"schema": self.schema})
        return bool(tables) and not there

    @property
    def _connection(self) -> Connection:
        if self._handle is None or self._handle.closed:
            self._connect()
            assert self._handle is not None
        if self._is_ringing:
            self._is_ringing = False
            while self._handle.pgconn.get_result() is not None:
                pass
        return self._handle

    def _connect(self) -> None:
        self._is_ringing = False
        try:
            self._handle = link.connect(self._where.conninfo)
            self.is_direct = link.is_direct(self._handle)
        except psycopg.Error as problem:
            raise link.explain(problem, self.path) from problem

    def _text(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = _PARAMETER.sub(r"%(\1)s", self._statements.text(name).replace("%", "%%"))
        return text

    def _run(self, text: str, params: Mapping[str, Any], foreseen: Cursor | None = None) -> list[Row]:
        """A statement within a transaction; one that answers nothing is not waited for."""
        with self._explained():
            cursor = foreseen or self._connection.execute(text.encode(), params, prepare=self.is_direct)
            return cursor.fetchall() if _answers(text) else []

    def _run_alone(self, text: str, params: Mapping[str, Any]) -> list[Row]:
        """One statement as a transaction of its own, in one exchange of messages."""
        with self._explained():
            connection = self._connection
            with connection.pipeline():
                connection.execute(b"BEGIN")
                connection.execute(self._settings.encode())
                cursor = connection.execute(text.encode(), params, prepare=self.is_direct)
                connection.execute(b"COMMIT")
            return cursor.fetchall() if _answers(text) else []

    def _begin(self, text: str) -> None:
        with self._explained():
            cursor = self._connection.execute(text.encode())
            while cursor.nextset():
                pass
            (self._began,) = cursor.fetchone() or (0,)
            self._pipeline = self._connection.pipeline()
            self._pipeline.__enter__()
            self._in_transaction = True

    def _commit(self) -> None:
        self._in_transaction = False
        if self._handle is None:
            raise StoreAway(f"{self.path} went away before a commit: nothing was changed")
        try:
            cursor = self._handle.execute(b"COMMIT")
            self._end_pipeline()
            said = cursor.statusmessage
        except psycopg.Error as problem:
            if link.is_away(problem):
                self._give_up_link()
                text = link.in_one_line(problem)
                raise InDoubt(f"{self.path} went away during a commit, which may or may not stand: {text}") from problem
            self._roll_back()
            raise link.explain(problem, self.path) from problem
        if said != "COMMIT":
            raise StoreError(f"{self.path} undid a change in which something had failed before")

    def _roll_back(self) -> None:
        self._in_transaction = False
        if self._handle is None or self._handle.closed:
            return
        try:
            self._end_pipeline()
        except psycopg.Error:  # what failed is known already
            pass
        try:
            self._handle.execute(b"ROLLBACK")
        except psycopg.Error:  # the server undoes what its client does not end
            self._give_up_link()

    def _end_pipeline(self) -> None:
        self._foreseen.clear()
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.__exit__(None, None, None)

    def _explained(self) -> _Explained:
        return _Explained(self)

    def _give_up_link(self) -> None:
        """Close what is left of the connection; the next use opens another."""
        self._pipeline = None
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _after_fork(self) -> None:
        self._in_transaction, self._pipeline = False, None
        if self._handle is not None:
            _forsaken.append(self._handle)
            self._handle = None


class _Explained:
    """Errors of psycopg leave the block as ours; a link that broke is given up."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, _: object) -> None:
        if isinstance(problem, psycopg.Error):
            if not self._database._in_transaction:
                self._database._roll_back()
            if link.is_away(problem):
                self._database._give_up_link()
            raise link.explain(problem, self._database.path) from problem
        if isinstance(problem, UnicodeEncodeError):
            raise BadInput(f"this text is not valid Unicode: {problem.object!r:.80}") from None


def _array(values: tuple[int | str | None, ...]) -> str:
    """A column as PostgreSQL reads an array; psycopg's own way takes longer than the statement."""
    first = values[0]
    if values.count(first) == len(values):
        items: Iterable[str] = [_item(first)] * len(values)
    elif isinstance(first, int) and None not in values:
        items = map(str, values)
    else:
        items = map(_item, values)
    return "{" + ",".join(items) + "}"


def _item(value: int | str | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "NULL" if value is None else str(value)


def _answers(text: str) -> bool:
    return text.startswith(("SELECT", "WITH")) or "RETURNING" in text


def _names(text: str) -> list[str]:
    """The parameters of a text in the order in which it first names them."""
    return list(dict.fromkeys(re.findall(r"%\(([a-z_]+)\)s", text)))


def _forget_connections() -> None:
    """In a forked child: the parent's connections are not ours to use or close; each is opened anew when next used."""
    for database in list(_open_databases):
        database._after_fork()


os.register_at_fork(after_in_child=_forget_connections)
