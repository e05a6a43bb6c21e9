"""SQLite through apsw: one connection, the fair lock before each write, checkpoints under it, safe after a fork."""

from __future__ import annotations

import math
import os
import time
import weakref

import apsw

from rota.core.errors import BadInput, NotFound, StoreError, StoreFull, TakesLong
from rota.store.sqlite.bell import Bell, Listener
from rota.store.sqlite.clock import BootClock, boot_id, since_boot, wall
from rota.store.sqlite.lock import WriteLock
from rota.store.sqlite.log import SqliteLog
from rota.store.statements import Statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rota.core.times import Instant
    from rota.store.rows import Row
    from rota.store.sqlite.clock import Clock

APPLICATION_ID = 0x726F7461  # "rota"
GAPS = {
    "int64": "INTEGER",
    "identity": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "for_update": "",
    "skip_locked": "",
    "greatest": "max",
    "now": ":now",
    "wall": ":wall",
}
CHECKPOINT_PAGES = 1000
BUSY_MS = 30_000
STEPS = 1000  # of SQLite's machine, some microseconds, between two looks at the clock by who is in a hurry
STATEMENTS = 256
JOURNAL_LIMIT = 64 * 1024 * 1024

_open_databases: weakref.WeakSet[SqliteDatabase] = weakref.WeakSet()
_forsaken: list[apsw.Connection] = []


class _Transaction:
    """`with` for a transaction; `contextlib` would cost a hot verb more than the transaction does."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None], undo: Callable[[], None]) -> None:
        self._begin = begin
        self._end = end
        self._undo = undo

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._end()
        else:
            self._undo()


class SqliteDatabase:
    """`execute` and `many` by statement name; `write` for a transaction that changes, `read` for one that does not."""

    dialect = "sqlite"
    locks_rows = False
    is_lent = False
    is_far = False

    def __init__(self, path: str, clock: Clock | None = None, on_wait: Callable[[str], None] | None = None) -> None:
        self.path = self.url = self.beside = path
        self.runs = os.path.join(os.path.dirname(path), "runs")
        self.log = SqliteLog(self)
        self._given_clock = clock
        self._on_wait = on_wait
        self._statements = Statements(GAPS)
        self._handle: apsw.Connection | None = None
        self._is_hurried, self._until = False, math.inf
        self._bell, self._events_bell, self._knocker = (Bell(f"{path}.{name}") for name in ("bell", "events", "knock"))
        self._connect()
        _open_databases.add(self)

    @property
    def _connection(self) -> apsw.Connection:
        if self._handle is None:
            self._connect()
            assert self._handle is not None
        return self._handle

    def _connect(self) -> None:
        if not os.path.isfile(self.path):
            raise NotFound(f"there is no database at {self.path}: make one with `rota init`")
        try:
            self._open()
        except apsw.Error as problem:
            raise _explain(problem, self.path) from problem
        except PermissionError as problem:
            place = problem.filename or self.path
            raise StoreError(
                f"{place} may not be written: check its owner and mode, and those of its folder"
            ) from problem
        self._clock: Clock = self._given_clock or self._boot_clock()

    def _open(self) -> None:
        self._handle = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENTS)
        self._handle.set_busy_timeout(BUSY_MS)
        self._refuse_foreign()
        self._handle.execute(
            f"PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit={JOURNAL_LIMIT}"
        ).fetchall()  # what comes after the first answer is carried out when that is read
        self._handle.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._handle.set_wal_hook(self._count_pages)
        self._pages = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        self._lock = WriteLock(f"{self.path}.lock", self._on_wait)
        self._file = _identity(self.path)
        self.version: int = self._handle.pragma("user_version")

    def _refuse_foreign(self) -> None:
        found = self._connection.pragma("application_id")
        if found != APPLICATION_ID:
            what = "an empty file" if os.path.getsize(self.path) == 0 else "another program's database"
            raise StoreError(
                f"{self.path} is not a rota database but {what}: give another path with --db, or move it away"
            )

    def _refuse_replaced(self) -> None:
        """What is written into a file that has lost its name is gone with the last program that has it open."""
        if _identity(self.path) != self._file:
            raise StoreError(
                f"{self.path} was removed or replaced while it was open, and nothing was changed:"
                " put it back, or restart what uses it"
            )

    def _boot_clock(self) -> BootClock:
        boot = boot_id()
        known = self.execute("clock.offset", {"boot": boot})
        if not known:
            with self.write():
                now = since_boot()
                self.execute("clock.remember", {"boot": boot, "offset": wall() - now, "since_boot": now})
                known = self.execute("clock.offset", {"boot": boot})
        ((offset,),) = known
        return BootClock(offset)

    def now(self) -> Instant:
        return self._clock.now()

    def wall(self) -> Instant:
        return self._clock.wall()

    def moment(self) -> tuple[Instant, Instant]:
        return self._clock.now(), self._clock.wall()

    def clock(self) -> dict[str, Instant | None]:
        """`now` and `wall` for a statement."""
        now, wall = self.moment()
        return {"now": now, "wall": wall}

    def execute(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """The rows of one statement; parameters by name."""
        try:
            return self._connection.execute(self._statements.text(name), params).fetchall()
        except apsw.Error as problem:
            raise self._explained(problem) from problem
        except UnicodeEncodeError as problem:
            raise BadInput(f"this text is not valid Unicode: {problem.object!r:.80}") from None

    def change(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """Nothing is far away here, so every change is made in steps."""
        return []

    def foresee(self, name: str, params: Mapping[str, Any]) -> None:
        """Nothing is far away here."""

    def many(self, name: str, rows: Iterable[Row]) -> list[Row]:
        """One statement for many rows; parameters in the order in which the text first names them."""
        try:
            return self._connection.executemany(self._statements.text(name), rows).fetchall()
        except apsw.Error as problem:
            raise _explain(problem, self.path) from problem
        except UnicodeEncodeError as problem:
            raise BadInput(f"this text is not valid Unicode: {problem.object!r:.80}") from None

    def script(self, text: str, number: int = 0) -> None:
        """Run several statements; only for migrations."""
        self._say(text)

    def gaps(self) -> Mapping[str, str]:
        return GAPS

    def write(self, alone: bool = False) -> _Transaction:
        """A transaction that changes things: whole when the block ends, undone when it raises. It is always alone."""
        return _Transaction(self._begin_write, self._commit, self._undo)

    def read(self) -> _Transaction:
        """A transaction that sees one moment."""
        return _Transaction(lambda: self._say("BEGIN"), self._roll_back, self._roll_back)

    def knock(self) -> None:
        self._knocker.ring()

    def ring(self, events_only: bool = False, knocked: bool = False) -> None:
        self._events_bell.ring()
        if events_only:
            return
        self._bell.ring()
        if not knocked:
            self._knocker.ring()

    def listen(self, events: bool = False, behind_lock: bool = False) -> Listener:
        return Listener(f"{self.path}.{'events' if events else 'knock' if behind_lock else 'bell'}")

    def close(self) -> None:
        _open_databases.discard(self)
        for bell in (self._bell, self._events_bell, self._knocker):
            bell.close()
        self._lock.close()
        self._connection.close()

    def hurry(self, seconds: float) -> None:
        """For looks in a hurry: from now on one that would take longer, or would have to wait, is given up."""
        if not self._is_hurried:
            self._is_hurried = True
            self._connection.set_busy_timeout(0)
            self._connection.set_progress_handler(lambda: time.monotonic() > self._until, STEPS)
        self._until = time.monotonic() + seconds

    def refresh_version(self) -> int:
        """The schema's number as it is now, which another program may have raised."""
        self.version = self._connection.pragma("user_version")
        return self.version

    def set_version(self, version: int) -> None:
        self._connection.pragma("user_version", version)
        self.version = version

    def integrity(self) -> str:
        """SQLite's own check of the file: `ok`, or what is wrong."""
        try:
            return str(self._connection.pragma("quick_check"))
        except apsw.Error as problem:
            raise _explain(problem, self.path) from problem

    def log_pages(self) -> int:
        """Pages in the write-ahead log, as of the last commit here."""
        return self._pages

    def _begin_write(self) -> None:
        if self._handle is None:
            self._connect()
        self._lock.acquire()
        try:
            self._refuse_replaced()
            self._say("BEGIN IMMEDIATE")
        except BaseException:
            self._lock.release()
            raise

    def _commit(self) -> None:
        try:
            self._say("COMMIT")
            if self._pages >= self._checkpoint_at:
                self._checkpoint()
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._lock.release()

    def _undo(self) -> None:
        try:
            self._roll_back()
        finally:
            self._lock.release()

    def _say(self, text: str) -> None:
        """Where a transaction begins and ends nothing is given up: it might have, all the same."""
        until, self._until = self._until, math.inf
        try:
            self._connection.execute(text)
        except apsw.Error as problem:
            raise self._explained(problem) from problem
        finally:
            self._until = until

    def _explained(self, problem: apsw.Error) -> StoreError:
        if self._is_hurried and isinstance(problem, apsw.BusyError | apsw.InterruptError):
            return TakesLong(f"{self.path}: this would take long")
        return _explain(problem, self.path)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._say("ROLLBACK")
            except StoreError:  # SQLite has rolled back by itself already
                pass

    def _count_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Move the log into the database as far as readers allow; ask again only after as many further pages."""
        try:
            in_log, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._checkpoint_at = CHECKPOINT_PAGES if in_log == moved else in_log + CHECKPOINT_PAGES
        except apsw.Error:  # the commit stands; the next one tries again
            self._checkpoint_at = self._pages + CHECKPOINT_PAGES

    def _after_fork(self) -> None:
        self._lock.close()
        if self._handle is not None:
            _forsaken.append(self._handle)
            self._handle = None


def _forget_connections() -> None:
    """In a forked child: the parent's connections are not ours to use or close; each is opened anew when next used."""
    for database in list(_open_databases):
        database._after_fork()


os.register_at_fork(after_in_child=_forget_connections)


def _identity(path: str) -> tuple[int, int] | None:
    """Which file has this name; None when none has."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _explain(problem: apsw.Error, path: str) -> StoreError:
    """An error of SQLite in words that say what to do."""
    match problem:
        case apsw.FullError():
            return StoreFull(f"the disk of {path} is full: nothing was changed; make room and try again")
        case apsw.NotADBError():
            return StoreError(
                f"{path} is not a SQLite database: give another path with --db, or restore it from a backup"
            )
        case apsw.CorruptError():
            return StoreError(f"{path} is damaged ({problem}): stop all workers and restore it from a backup")
        case apsw.ReadOnlyError():
            return StoreError(f"{path} is read-only: check the owner and mode of the file and of its folder")
        case apsw.CantOpenError() | apsw.PermissionsError():
            return StoreError(f"{path} cannot be opened: check the owner and mode of the file and of its folder")
        case apsw.BusyError():
            return StoreError(
                f"{path} stayed locked by a program that does not queue for it: is another tool writing to it?"
            )
        case apsw.IOError():
            return StoreError(
                f"reading or writing {path} failed ({problem}): check the disk; what was acknowledged is kept"
            )
    return StoreError(f"{path}: {problem}")
