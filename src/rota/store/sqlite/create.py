"""Making a database: built aside and put in place in one step, so that there never is half of one."""

from __future__ import annotations

import os
import shutil

import apsw

from rota.core.errors import StoreError
from rota.store.migrate import migrate
from rota.store.open import FILE, FOLDER
from rota.store.sqlite.database import APPLICATION_ID, SqliteDatabase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs", "fuse.glusterfs"}


def create(path: str | None, start: str, told: Callable[[str], None] | None) -> str:
    """Make the database at `path`, or a `.rota` folder in `start`; its path. If someone else was faster, theirs."""
    target = path or os.path.join(start, FOLDER, FILE)
    parent = os.path.dirname(target) if path else start
    if not os.path.isdir(parent):
        raise StoreError(f"there is no folder {parent}: make it first")
    if (kind := file_system(parent)) in NETWORK:
        raise StoreError(
            f"{parent} is on a network file system ({kind}), where SQLite cannot lock safely: use a local folder"
        )
    old_mask = os.umask(0o077)
    try:
        made = _create_file(path) if path else _create_folder(os.path.join(start, FOLDER))
    except (OSError, apsw.Error) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise StoreError(f"{parent} cannot be written ({reason}): choose another folder with --db") from problem
    finally:
        os.umask(old_mask)
    _make_durable(parent)
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
    aside = f"{path}.new-{os.getpid()}"
    try:
        _build(aside)
        os.link(aside, path)
        return True
    except FileExistsError:
        return False
    finally:
        for suffix in ("", "-wal", "-shm", ".lock", ".bell", ".events", ".knock"):
            if os.path.lexists(aside + suffix):
                os.unlink(aside + suffix)


def _build(path: str) -> None:
    """A whole database in one file, nothing left in a log."""
    connection = apsw.Connection(path)
    connection.pragma("application_id", APPLICATION_ID)
    connection.close()
    database = SqliteDatabase(path, clock=_NoClock())
    migrate(database)
    database.close()
    connection = apsw.Connection(path)
    connection.pragma("journal_mode", "wal")
    connection.close()
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
        from rota.store.sqlite.clock import wall

        return wall()


def file_system(folder: str) -> str | None:
    """The kind of file system that a folder is on, where the system tells."""
    try:
        with open("/proc/self/mounts", encoding="utf-8") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return None
    real = os.path.realpath(folder)
    best: tuple[str, str | None] = ("", None)
    for point, kind in mounts:
        if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]
