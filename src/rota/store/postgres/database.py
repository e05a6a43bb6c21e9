"""PostgreSQL through psycopg: named statements, transactions, the server's clock, the event log and listeners."""

from __future__ import annotations

import os
import re
import weakref
from contextlib import nullcontext
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

from rota.core.errors import BadInput
from rota.process.host import files_of
from rota.store.engine.listening import Listening
from rota.store.engine.rows import scalar
from rota.store.engine.transaction import SHARDS
from rota.store.migrate import missing
from rota.store.postgres import connection as connections
from rota.store.postgres.connection import psycopg
from rota.store.postgres.dialect import GAPS, KINDS, Texts, role, statements_of
from rota.store.postgres.session import Session, notify_statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from rota.core.times import Instant
    from rota.store.engine.database import Clock
    from rota.store.engine.rows import Row
    from rota.store.postgres.connection import Address, Connection
    from rota.store.postgres.session import How

_connections = count(os.getpid())
_open_databases: weakref.WeakSet[PostgresDatabase] = weakref.WeakSet()
_NOTHING = "3:3:"
_SNAPSHOT = r"[1-9][0-9]{0,18}:[1-9][0-9]{0,18}:[0-9,]*"
_CURSOR = re.compile(rf"(?P<seen>{_SNAPSHOT})(/(?P<page>{_SNAPSHOT})/(?P<id>[0-9]{{1,18}}))?", re.ASCII)
_END = 1 << 62


@cache
def _texts(schema: str, shard: str) -> Texts:
    return Texts({"schema": schema, "shard": shard, **{kind: role(schema, kind) for kind in KINDS}})


class _Transaction:
    """`with` for a transaction."""

    def __init__(self, session: Session, how: How) -> None:
        self._session = session
        self._how = how

    def __enter__(self) -> None:
        self._session.begin(self._how)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._session.commit()
        else:
            self._session.roll_back()


class PostgresDatabase:
    """`execute` and `many` by statement name; `write` for a transaction that changes, `read` for one that does not."""

    dialect = "postgres"
    locks_rows = True
    is_borrowed = False
    is_networked = False

    def __init__(self, where: Address, clock: Clock | None = None) -> None:
        self._begin(where, Session(where), str(next(_connections) % SHARDS), clock)
        self.session.connect()
        self.version = self.refresh_version()
        self.is_networked = clock is None
        _open_databases.add(self)

    def _begin(self, where: Address, session: Session, shard: str, clock: Clock | None = None) -> None:
        self.path, self.url, self.schema = where.shown, where.url, where.schema
        self.session = session
        self.log = PostgresLog(self)
        self.texts = _texts(where.schema, shard)
        self._where = where
        self._clock = clock
        self._place: str | None = None

    @property
    def beside(self) -> str:
        """Files of this host for this database: in a folder of the user's own, the same however its URL is spelt."""
        if self._place is None:
            ((port, number, may_ask),) = self.execute("schema.place", {})
            cluster = scalar(self.execute("schema.cluster", {})) if may_ask else self.path
            self._place = f"{cluster}/{port}/{number}"
        return files_of(self._place, self.schema)

    @property
    def runs(self) -> str:
        return f"{self.beside}.runs"

    def now(self) -> Instant:
        return self.moment()[0]

    def wall(self) -> Instant:
        return self.moment()[1]

    def moment(self) -> tuple[Instant, Instant]:
        """The server's clock, or in a transaction what it said when that began."""
        if self._clock is not None:
            return self._clock.now(), self._clock.wall()
        if not self.session.in_transaction:
            with self.read():
                return self.session.began, self.session.began
        return self.session.began, self.session.began

    def clock(self) -> dict[str, Instant | None]:
        """`now` and `wall` for a statement that has `$now` or `$wall`: None for the moment at which it runs."""
        if self.is_networked:
            return {"now": None, "wall": None}
        now, wall = self.moment()
        return {"now": now, "wall": wall}

    def hurry(self, seconds: float) -> None:
        """Do nothing: a server is always waited for."""

    def execute(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """Run one statement, with parameters by name, and return its rows."""
        return self.session.run(self.texts.statement(name), params)

    def change(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """Make a change that is one statement, its event included; return no rows if it must be made in steps."""
        return self.session.run_whole(self.texts.statement(name), params) if self.is_networked else []

    def prefetch(self, name: str, params: Mapping[str, Any]) -> None:
        """Send a statement of a transaction without waiting; executing the same takes its answer."""
        self.session.prefetch(self.texts.statement(name), params)

    def many(self, name: str, rows: Iterable[Row]) -> list[Row]:
        """One statement for many rows; parameters in the order in which the common text first names them."""
        given = list(rows)
        if not given:
            return []
        if f"{name} many" in self.texts.own:
            return self.execute(f"{name} many", self.texts.as_columns(name, given))
        return [answer for params in self.texts.by_name(name, given) for answer in self.execute(name, params)]

    def script(self, text: str, number: int = 0) -> None:
        """Run several statements, and what PostgreSQL adds to migration `number`; only for migrations."""
        self.session.script(statements_of(text))
        if f"schema.after_{number}" in self.texts.own:
            self.session.script(statements_of(self.texts.plain(f"schema.after_{number}")))

    def gaps(self) -> Mapping[str, str]:
        return GAPS

    def write(self, exclusive: bool = False) -> _Transaction:
        """Begin a transaction that writes: committed when the block ends, undone when it raises."""
        if self.version == 0:  # no gate yet
            return _Transaction(self.session, self.session.making)
        return _Transaction(self.session, self.session.exclusive if exclusive else self.session.shared)

    def read(self) -> _Transaction:
        """Begin a transaction that reads one moment."""
        return _Transaction(self.session, self.session.reading)

    def notify_early(self) -> None:
        """Do nothing: a message takes longer than what it would save (decision 31)."""

    def notify(self, events_only: bool = False, notified_early: bool = False) -> None:
        """One message after the commit: inside the transaction its lock would make writers wait for each other."""
        self.session.say(notify_statement(self.channels(events_only)))

    def channels(self, events_only: bool) -> list[str]:
        """The names under which others listen: for events, and for work."""
        return [f"{self.schema}_events", *([] if events_only else [f"{self.schema}_work"])]

    def listen(self, events: bool = False, behind_lock: bool = False) -> Listener:
        return Listener(self._where.conninfo, f"{self.schema}_{'events' if events else 'work'}")

    def close(self) -> None:
        _open_databases.discard(self)
        self.session.close()

    def refresh_version(self) -> int:
        """The schema's number as it is now, which another program may have raised; 0 for none."""
        ((there, _),) = self.execute("schema.version", {"schema": self.schema})
        self.version = scalar(self.execute("schema.number", {})) if there else 0
        return self.version

    def set_version(self, version: int) -> None:
        """Note the number; the table of migrations has it already."""
        self.version = version

    def integrity(self) -> str:
        """Return `ok`, or what is wrong, as far as the server knows."""
        gone = missing({name for (name,) in self.execute("schema.tables", {"schema": self.schema})})
        if gone:
            return gone
        invalid = scalar(self.execute("schema.invalid", {"schema": self.schema}))
        return f"{invalid} indexes are not whole: REINDEX SCHEMA {self.schema}" if invalid else "ok"

    def give_back(self, most: int) -> int:
        """Do nothing: autovacuum does that."""
        return 0

    def last_room(self) -> AbstractContextManager[None]:
        """Do nothing: a server keeps no space free that rota could use."""
        return nullcontext()

    def is_foreign(self) -> bool:
        """Return whether the schema has tables that are not rota's."""
        ((there, tables),) = self.execute("schema.version", {"schema": self.schema})
        return bool(tables) and not there


class PostgresLog:
    """The event log by cursor. Events become visible out of the order of their ids (decision 14).

    So a cursor is a snapshot: what was over then has been read. Within a page it is two, the snapshot before the page
    and the page's own, with the last id read. Ids are drawn last in a transaction, so of two that meet they tell the
    order.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def after(self, cursor: str, most: int) -> list[Row]:
        seen, page, id = _parts(cursor)
        events: list[Row] = []
        if page is not None:
            rows = self._database.execute("log.rest", {"seen": seen, "page": page, "id": id, "most": most})
            events = [(f"{seen}/{page}/{id}", at, actor, facts) for id, at, actor, facts in rows]
            seen = page
        if len(events) < most:
            rows = self._database.execute("log.after", {"seen": seen, "most": most - len(events)})
            events += [(f"{seen}/{now}/{id}", at, actor, facts) for id, at, actor, facts, now in rows]
        return events

    def before(self, cursor: str | None, most: int) -> list[Row]:
        _, _, end = (None, None, _END) if cursor is None else _parts(cursor)
        rows = self._database.execute("log.before", {"id": end, "most": most})
        return [(f"{_NOTHING}/{now}/{id}", at, actor, facts) for id, at, actor, facts, now in reversed(rows)]

    def rebase(self) -> int:
        """Bring the log of another server, restored into this one, into this one's past; how many events."""
        with self._database.write(exclusive=True):
            return len(self._database.execute("log.rebase", {}))

    def last(self) -> str:
        return str(scalar(self._database.execute("log.last", {})))

    def reaches(self, cursor: str) -> bool:
        seen, _, _ = _parts(cursor)
        return bool(scalar(self._database.execute("log.reaches", {"seen": seen})))


def _parts(cursor: str) -> tuple[str, str | None, int]:
    """The snapshot that was read up to, and within a page the page's snapshot and the last id."""
    if cursor == "0":
        return _NOTHING, None, 0
    known = _CURSOR.fullmatch(cursor)
    if known is None:
        raise BadInput(f"{cursor!r} is not an event cursor: hand back one that `rota events --json` printed")
    return known["seen"], known["page"], int(known["id"] or 0)


class Listener(Listening["Connection"]):
    """Listens to one channel, on a LISTEN connection of its own, from the moment it is made."""

    def __init__(self, conninfo: str, channel: str) -> None:
        self._conninfo = conninfo
        self._channel = channel
        super().__init__()

    def open_line(self) -> Connection | None:
        try:
            connection = connections.connect(self._conninfo)
            connection.execute(f"LISTEN {self._channel}".encode())
            return connection
        except psycopg.Error:
            return None

    def rang(self, line: Connection) -> bool | None:
        """Whether a notification came."""
        try:
            line.pgconn.consume_input()
        except psycopg.Error:
            return None
        has_notification = False
        while line.pgconn.notifies() is not None:
            has_notification = True
        return has_notification


def _forget_connections() -> None:
    """Forget the parent's connections in a forked child; the next use opens others."""
    for database in list(_open_databases):
        database.session.forsake()


os.register_at_fork(after_in_child=_forget_connections)
