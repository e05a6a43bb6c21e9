"""SQLite through apsw: one connection, the fair lock before each write, checkpoints under it, safe after a fork."""

from __future__ import annotations

import math
import os
import time
import weakref
from _thread import RLock

import apsw

from rota.core.errors import BadInput, InDoubt, NotFound, Replaced, StoreError, StoreFull, TakesLong
from rota.process.host import BootClock, boot_id, since_boot, wall
from rota.store.engine.statements import Statements
from rota.store.migrate import missing, refuse_development
from rota.store.own_files import Reserve, refuse_planted
from rota.store.sqlite.event_log import SqliteLog
from rota.store.sqlite.lock import WriteLock
from rota.store.sqlite.notifications import Listener, NotificationFile
from rota.store.sqlite.open_files import OpenFiles, hold, let_go, refuse_network, refuse_second_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rota.core.times import Instant
    from rota.store.engine.database import Clock
    from rota.store.engine.rows import Row

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
FORK_PATIENCE = 2.0  # seconds that a fork waits for what other threads do at that moment
JOURNAL_LIMIT = 64 * 1024 * 1024
INCREMENTAL = 2  # of `auto_vacuum`
ROOM_PAGES = 64

_open_databases: weakref.WeakSet[SqliteDatabase] = weakref.WeakSet()


class _Forks:
    """Before a fork, wait until no thread is inside SQLite; in the child, close the inherited connections.

    SQLite counts the locks of a process by file. A child inherits the counts but not the locks: while an inherited
    connection is open, one that the child opens takes no lock at all. An idle connection is safe to close.
    """

    def __init__(self) -> None:
        self.was_in_use = False  # a connection, when this process was forked
        # Taken to begin a transaction, so that none begins while a fork waits for the others.
        self.gate = RLock()
        self._taken: list[RLock] = []

    def before(self) -> None:
        deadline = time.monotonic() + FORK_PATIENCE
        self._take(self.gate, deadline)
        for database in list(_open_databases):
            self._take(database._in_use, deadline)

    def in_parent(self) -> None:
        while self._taken:
            self._taken.pop().release()

    def in_child(self) -> None:
        databases = list(_open_databases)
        self.was_in_use |= not all(database._is_idle() for database in databases)
        for database in databases:
            database._after_fork(is_clean=not self.was_in_use)
        if self.gate not in self._taken:
            self.gate = RLock()
        self.in_parent()

    def _take(self, lock: RLock, deadline: float) -> None:
        if lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            self._taken.append(lock)


_forks = _Forks()
os.register_at_fork(before=_forks.before, after_in_parent=_forks.in_parent, after_in_child=_forks.in_child)


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
    is_borrowed = False
    is_networked = False

    def __init__(self, path: str, clock: Clock | None = None, on_wait: Callable[[str], None] | None = None) -> None:
        # As SQLite resolves it, so that every name leads to the same log, lock and notification files.
        path = os.path.realpath(path)
        self.path = self.url = self.beside = path
        self.runs = os.path.join(os.path.dirname(path), "runs")
        self.log = SqliteLog(self)
        self._given_clock = clock
        self._statements = Statements(GAPS)
        self._handle: apsw.Connection | None = None
        # Held while a transaction or a statement runs, so that no fork happens meanwhile.
        self._in_use = RLock()
        self._is_hurried, self._until = False, math.inf
        self._reserve = Reserve(f"{path}.reserve")
        self._uses_reserve = False
        self._may_write = True
        self._notifications, self._event_notifications, self._early_notifications = (
            NotificationFile(f"{path}.{name}") for name in ("notify", "events", "notify-early")
        )
        self._lock = WriteLock(f"{path}.lock", on_wait)
        with _forks.gate:
            _open_databases.add(self)
        self._connect()

    @property
    def _connection(self) -> apsw.Connection:
        if self._handle is None:
            self._connect()
            assert self._handle is not None
        return self._handle

    def _connect(self) -> None:
        if _forks.was_in_use:
            raise StoreError(
                f"{self.path} cannot be used in this process, which was forked while a transaction was open: fork"
                " outside of transactions, or start a fresh interpreter (multiprocessing calls that 'spawn')"
            )
        if os.path.exists(self.path) and not (os.path.isfile(self.path) or os.path.isdir(self.path)):
            raise StoreError(f"{self.path} is not a file: give another path with --db, or move it away")
        if not os.path.isfile(self.path):
            raise NotFound(f"there is no database at {self.path}: make one with `rota init`")
        with self._in_use:
            try:
                self._open()
            except BaseException:
                self._disconnect()
                raise
        self._clock: Clock = self._given_clock or self._boot_clock()

    def _open(self) -> None:
        try:
            self._open_files()
        except apsw.Error as problem:
            raise _explain(problem, self.path) from problem
        except PermissionError as problem:
            raise self._read_only(problem.filename) from problem

    def _open_files(self) -> None:
        self._is_hurried = False
        # Where nothing may be made beside the file, as on a mounted backup, it can still be looked at.
        self._may_write = _may_write(os.path.dirname(self.path), os.X_OK) and _may_write(self.path)
        refuse_planted(self.path)
        place, flags = self.path, apsw.SQLITE_OPEN_READWRITE
        if self._may_write:
            # A database that is only read needs no locks, so it may be on a network (decision 8).
            refuse_network(os.path.dirname(self.path))
        if not self._may_write:
            place, flags = _unchanging(self.path), apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        self._handle = apsw.Connection(place, flags=flags, statementcachesize=STATEMENTS)
        self._handle.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._handle.set_busy_timeout(BUSY_MS)
        # Before the first read opens the log, so that nobody removes it in between (decision 34).
        hold(self.path, BUSY_MS / 1000)
        refuse_second_name(self.path)
        self._refuse_foreign()
        refuse_development(self._handle.pragma("user_version"), self.path)  # before anything is written
        # Again, before anything is written: a file may have been put there since the first look.
        refuse_planted(self.path)
        self._keep_log()
        self._handle.execute(
            f"PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit={JOURNAL_LIMIT}"
        ).fetchall()  # what comes after the first answer is carried out when that is read
        self._handle.set_wal_hook(self._count_pages)
        self._pages = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        if self._may_write:
            self._lock.open()
        # This read opens the log, whose identity is kept next (decision 34).
        self.version: int = self._handle.pragma("user_version")
        if self._may_write:
            self._files = OpenFiles(self.path)

    def _refuse_foreign(self) -> None:
        found = self._connection.pragma("application_id")
        if found != APPLICATION_ID:
            what = "an empty file" if os.path.getsize(self.path) == 0 else "another program's database"
            raise StoreError(
                f"{self.path} is not a rota database but {what}: give another path with --db, or move it away"
            )

    def _keep_log(self) -> None:
        """Turn on WAL mode, which a copy made by VACUUM INTO lacks. That needs the exclusive lock for a moment."""
        if not self._may_write or self._connection.pragma("journal_mode") == "wal":
            return
        let_go(self.path)
        self._connection.pragma("journal_mode", "wal")
        hold(self.path, BUSY_MS / 1000)

    def _refuse_replaced(self) -> None:
        """What is written into a file that has lost its name is gone with the last program that has it open.

        One that was moved away alone may come back. One whose lock is gone too was thrown away.
        """
        if (path := self._files.missing()) is not None:
            is_for_good = os.path.exists(path) or not os.path.exists(f"{self.path}.lock")
            raise (Replaced if is_for_good else StoreError)(
                f"{path} was removed or replaced while it was open, and nothing was changed:"
                " put it back, or restart what uses it"
            )

    def _doubt_replaced(self) -> None:
        """Do not acknowledge a commit during which a file was removed or replaced: it may have gone into that file."""
        if (path := self._files.missing()) is not None:
            raise InDoubt(
                f"{path} was removed or replaced during a change, which may be lost: stop what uses it,"
                " put the file back if you have it, start again, and look whether the change is there"
            )

    def _read_only(self, place: str | None = None) -> StoreError:
        return StoreError(f"{place or self.path} may not be written: check its owner and mode, and those of its folder")

    def _boot_clock(self) -> BootClock:
        boot = boot_id()
        known = self.execute("clock.offset", {"boot": boot})
        if not known and not self._may_write:
            return BootClock(wall() - since_boot())
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
        """Run one statement, with parameters by name, and return its rows."""
        try:
            with self._in_use:
                return self._connection.execute(self._statements.text(name), params).fetchall()
        except apsw.Error as problem:
            raise self._explained(problem) from problem
        except UnicodeDecodeError as problem:
            # SQLite accepts any bytes as text.
            raise StoreError(
                f"{self.path} holds text that is not UTF-8: {problem.object!r:.80}; another program wrote it, which"
                " must write it anew"
            ) from None
        except UnicodeEncodeError as problem:
            raise BadInput(f"this text is not valid Unicode: {problem.object!r:.80}") from None
        except OverflowError:
            raise BadInput("a number is too large: the database keeps whole numbers of 64 bits") from None

    def change(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """Return no rows: in a file, every change is made in steps."""
        return []

    def prefetch(self, name: str, params: Mapping[str, Any]) -> None:
        """Do nothing: no message to a file takes time."""

    def many(self, name: str, rows: Iterable[Row]) -> list[Row]:
        """Run one statement for many rows, with parameters in the order in which its text first names them."""
        try:
            with self._in_use:
                return self._connection.executemany(self._statements.text(name), rows).fetchall()
        except apsw.Error as problem:
            raise _explain(problem, self.path) from problem
        except UnicodeEncodeError as problem:
            raise BadInput(f"this text is not valid Unicode: {problem.object!r:.80}") from None
        except OverflowError:
            raise BadInput("a number is too large: the database keeps whole numbers of 64 bits") from None

    def script(self, text: str, number: int = 0) -> None:
        """Run several statements; only for migrations."""
        self._say(text)

    def gaps(self) -> Mapping[str, str]:
        return GAPS

    def write(self, exclusive: bool = False) -> _Transaction:
        """Begin a transaction that writes: committed when the block ends, undone when it raises. Always exclusive."""
        return _Transaction(self._begin_write, self._commit, self._undo)

    def read(self) -> _Transaction:
        """Begin a transaction that reads one moment."""
        return _Transaction(self._begin_read, self._end_read, self._end_read)

    def notify_early(self) -> None:
        self._early_notifications.notify()

    def notify(self, events_only: bool = False, notified_early: bool = False) -> None:
        self._event_notifications.notify()
        if events_only:
            return
        self._notifications.notify()
        if not notified_early:
            self._early_notifications.notify()

    def listen(self, events: bool = False, behind_lock: bool = False) -> Listener:
        return Listener(f"{self.path}.{'events' if events else 'notify-early' if behind_lock else 'notify'}")

    def close(self) -> None:
        for file in (self._notifications, self._event_notifications, self._early_notifications):
            file.close()
        with self._in_use:
            self._disconnect()
        with _forks.gate:
            _open_databases.discard(self)

    def _disconnect(self) -> None:
        self._lock.close()
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def hurry(self, seconds: float) -> None:
        """From now on, give up reads that take longer or would have to wait (decision 26)."""
        if not self._is_hurried:
            self._is_hurried = True
            self._connection.set_busy_timeout(0)
            self._connection.set_progress_handler(lambda: time.monotonic() > self._until, STEPS)
        self._until = time.monotonic() + seconds

    def refresh_version(self) -> int:
        """Read the schema's number again, which another program may have raised."""
        with self._in_use:
            self.version = self._connection.pragma("user_version")
        return self.version

    def set_version(self, version: int) -> None:
        with self._in_use:
            self._connection.pragma("user_version", version)
        self.version = version

    def integrity(self) -> str:
        """SQLite's own check of the file: `ok`, or what is wrong."""
        try:
            with self._in_use:
                found = str(self._connection.pragma("quick_check"))
                there = {row[1] for row in self._connection.pragma("table_list", schema="main") or ()}
            return (missing(there) or "ok") if found == "ok" else found
        except apsw.Error as problem:
            raise _explain(problem, self.path) from problem

    def give_back(self, most: int) -> int:
        """Move up to so many pages out of the unused end of the file; 0 when at most a tenth of the file is unused."""
        pragma = self._connection.pragma
        unused, pages = int(pragma("freelist_count")), int(pragma("page_count"))
        spare = unused - pages // 10
        if spare <= 0 or pragma("auto_vacuum") != INCREMENTAL:
            self._reserve.keep()
            return 0
        with self.write():
            self._shrink(min(most, spare))
            if most >= spare:
                # Checkpoint at the commit: only then does the file shrink.
                self._checkpoint_at = 0
        return min(most, spare)

    def last_room(self) -> _Transaction:
        """Within the block each change may use the reserve, and gives its room back to the disk while it is alone."""
        return _Transaction(self._use_reserve, self._leave_reserve, self._leave_reserve)

    def _use_reserve(self) -> None:
        self._uses_reserve = True

    def _leave_reserve(self) -> None:
        self._uses_reserve = False

    def _shrink(self, most: int) -> None:
        try:
            self._connection.execute(f"PRAGMA incremental_vacuum({most})").fetchall()
        except apsw.Error as problem:
            raise self._explained(problem) from problem

    def _make_room(self) -> None:
        """Give what a change has freed to the disk before anyone else may write, and make the reserve again."""
        try:
            self._shrink(ROOM_PAGES)
        except StoreFull:
            # The change is committed, and the pages that it freed will be reused.
            pass
        self._checkpoint()
        self._reserve.keep()

    def log_pages(self) -> int:
        """Pages in the write-ahead log, as of the last commit here."""
        return self._pages

    def _begin_write(self) -> None:
        if self._handle is None:
            self._connect()
        if not self._may_write:
            raise self._read_only()
        self._lock.acquire()
        try:
            if self._uses_reserve:
                self._reserve.release()
            self._begin("BEGIN IMMEDIATE")
        except BaseException:
            self._lock.release()
            raise

    def _begin_read(self) -> None:
        self._begin("BEGIN")

    def _begin(self, text: str) -> None:
        with _forks.gate:
            self._in_use.acquire()
        try:
            if text != "BEGIN":
                self._refuse_replaced()
            self._say(text)
        except BaseException:
            self._in_use.release()
            raise

    def _commit(self) -> None:
        try:
            self._say("COMMIT")
            # Before the checkpoint, which would write stale pages over new ones (decision 34).
            self._doubt_replaced()
            if self._uses_reserve:
                self._make_room()
            elif self._pages >= self._checkpoint_at:
                self._checkpoint()
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._in_use.release()
            self._lock.release()

    def _undo(self) -> None:
        try:
            self._end_read()
        finally:
            self._lock.release()

    def _end_read(self) -> None:
        try:
            self._roll_back()
        finally:
            self._in_use.release()

    def _say(self, text: str) -> None:
        """Begin or end a transaction, which is never given up: it might have happened all the same (decision 26)."""
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
        if self._handle is not None and self._handle.in_transaction:
            try:
                self._say("ROLLBACK")
            except StoreError:
                # SQLite has already rolled back by itself.
                pass

    def _count_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Move the log into the database as far as readers allow; ask again only after as many further pages."""
        try:
            in_log, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._checkpoint_at = CHECKPOINT_PAGES if in_log == moved else in_log + CHECKPOINT_PAGES
        except apsw.Error:
            # The change is committed; the next commit tries the checkpoint again.
            self._checkpoint_at = self._pages + CHECKPOINT_PAGES

    def _is_idle(self) -> bool:
        """Whether no transaction or statement runs on this connection."""
        if not self._in_use.acquire(blocking=False):
            return False
        self._in_use.release()
        return self._handle is None or not self._handle.in_transaction

    def _after_fork(self, is_clean: bool) -> None:
        """In a forked child: drop the inherited connection. The next use opens another."""
        self._lock.close()
        if self._in_use.acquire(blocking=False):
            self._in_use.release()
        else:
            # The thread that held it does not exist in this process.
            self._in_use = RLock()
        handle, self._handle = self._handle, None
        if is_clean and handle is not None:
            handle.close()
        elif handle is not None:
            from ctypes import py_object, pythonapi

            # Leak it: closing it would undo the parent's transaction.
            pythonapi.Py_IncRef(py_object(handle))


def _may_write(path: str, more: int = 0) -> bool:
    """Whether this process may write there: as it is now, with the capabilities it has, not as who started it."""
    return os.access(path, os.W_OK | more, effective_ids=os.access in os.supports_effective_ids)


def _unchanging(path: str) -> str:
    """The same file for SQLite, as one that nobody changes if it has no log: that needs no file beside it."""
    log, name = f"{path}-wal", path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    has_log = os.path.exists(log) and os.path.getsize(log) > 0
    return f"file:{name}?mode=ro{'' if has_log else '&immutable=1'}"


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
    if "no such table" in str(problem):
        return StoreError(f"{path} is damaged, {problem}: another program changed it; restore it from a backup")
    return StoreError(f"{path}: {problem}")
