"""Make a database: build it aside and put it in place in one step, so that there never is half of one (decision 8)."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import closing

import apsw

from rota.core.errors import StoreError
from rota.process.host import wall
from rota.store.migrate import migrate
from rota.store.open import FILE, FOLDER
from rota.store.own_files import Reserve
from rota.store.sqlite.database import APPLICATION_ID, INCREMENTAL, SqliteDatabase
from rota.store.sqlite.lock import WriteLock
from rota.store.sqlite.open_files import refuse_network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def create(path: str | None, start: str, told: Callable[[str], None] | None) -> str:
    """Make the database at `path`, or a `.rota` folder in `start`; its path. If someone else was faster, theirs."""
    target = path or os.path.join(start, FOLDER, FILE)
    parent = os.path.dirname(target) if path else start
    if not os.path.isdir(parent):
        raise StoreError(f"there is no folder {parent}: make it first")
    refuse_network(parent)
    old_mask = os.umask(0o077)
    try:
        made = _create_file(path) if path else _create_folder(os.path.join(start, FOLDER))
    except (OSError, apsw.Error) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise StoreError(f"{parent} cannot be written ({reason}): choose another folder with --db") from problem
    finally:
        os.umask(old_mask)
    _make_durable(parent)
    Reserve(f"{target}.reserve").keep()
    if made and told:
        told(f"made a new database at {target}")
    return target


def _create_folder(folder: str) -> bool:
    aside = f"{folder}.new-{os.getpid()}"
    shutil.rmtree(aside, ignore_errors=True)
    os.mkdir(aside, 0o700)
    try:
        _build(os.path.join(aside, FILE))
        os.rename(aside, folder)
        return True
    except FileExistsError:
        return False
    except OSError:
        if os.path.isdir(folder) and os.listdir(folder):
            return False
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _create_file(path: str) -> bool:
    """Rename under the lock, so as not to replace another's; a link would leave the file two names for a moment."""
    lock = WriteLock(f"{path}.lock")
    lock.open()
    lock.acquire()
    try:
        if os.path.lexists(path):
            return False
        with tempfile.TemporaryDirectory(prefix=f"{os.path.basename(path)}.new-", dir=os.path.dirname(path)) as aside:
            _build(os.path.join(aside, FILE))
            os.rename(os.path.join(aside, FILE), path)
        return True
    finally:
        lock.close()


def _build(path: str) -> None:
    """A whole database in one file, nothing left in a log."""
    with closing(apsw.Connection(path)) as connection:
        # First of all: SQLite takes this setting only for an empty file.
        connection.pragma("auto_vacuum", INCREMENTAL)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("journal_mode", "wal")
    with closing(SqliteDatabase(path, clock=_NoClock())) as database:
        migrate(database)
    with closing(apsw.Connection(path)) as connection:
        # Any read will do: the last connection to close moves the log into the file.
        connection.pragma("user_version")
    os.unlink(f"{path}.lock")


def _make_durable(folder: str) -> None:
    """A new name survives a power cut only once its folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _NoClock:
    """A database without a schema has no clock yet; its first opening fixes one."""

    def now(self) -> int:
        return 0

    def wall(self) -> int:
        return wall()
