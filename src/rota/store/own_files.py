"""The files that rota and SQLite keep beside a database, in a folder where others may put something in their place."""

from __future__ import annotations

import os
import stat

from rota.core.errors import StoreError

_SQLITES_OWN = ("-wal", "-shm", "-journal")
RESERVE = 4 * 1024 * 1024
SHARE = 20  # of the free space, the part that a reserve takes at most


def open_own(path: str, flags: int) -> int:
    """Open a lock, notification, pid or secret file, made 0600 with O_CREAT.

    Raises:
        StoreError: A link, a pipe or another user's file is in its place. Owners of the folder and of the database that
            the file is named after are trusted, since they can replace either.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    except OSError:
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise _foreign(path) from None
        raise
    found = os.fstat(descriptor)
    if not _is_own(found, os.path.splitext(path)[0]):
        os.close(descriptor)
        raise _foreign(path)
    return descriptor


def refuse_planted(path: str) -> None:
    """Refuse a log, its index or a journal of another user's beside a database: SQLite would take its content for ours.

    Raises:
        StoreError: One of them is a link, a pipe or another user's.
    """
    for ending in _SQLITES_OWN:
        try:
            found = os.lstat(path + ending)
        except FileNotFoundError:
            continue
        if not _is_own(found, path):
            raise _foreign(path + ending)


class Reserve:
    """Space kept free beside a database: pruning writes too, so on a full disk nothing could be pruned otherwise."""

    def __init__(self, path: str) -> None:
        self._path = path

    def keep(self) -> None:
        """Make the reserve if there is none, as large as the disk allows. Some file systems can set no space aside."""
        if os.path.lexists(self._path):
            return
        try:
            disk = os.statvfs(os.path.dirname(self._path))
            size = min(RESERVE, disk.f_bavail * disk.f_frsize // SHARE)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
        except OSError:
            return
        try:
            if size:
                os.posix_fallocate(descriptor, 0, size)
        except OSError:
            self.release()
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Give its space back to the disk."""
        try:
            os.unlink(self._path)
        except OSError:
            pass


def _is_own(found: os.stat_result, database: str) -> bool:
    is_alone = stat.S_ISREG(found.st_mode) and found.st_nlink <= 1
    return is_alone and found.st_uid in _owners(os.path.dirname(database), database)


def _owners(*places: str) -> set[int]:
    """Root, we ourselves, and whoever could replace these anyway."""
    owners = {0, os.geteuid()}
    for place in places:
        try:
            owners.add(os.stat(place or ".").st_uid)
        except OSError:
            pass
    return owners


def _foreign(path: str) -> StoreError:
    return StoreError(f"{path} is not a file of rota's but a link, a pipe or another user's: remove it")
