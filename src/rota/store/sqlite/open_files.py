"""The three files of an open database: locked against every other SQLite, and checked for removal or replacement.

The last connection to leave a database moves its write-ahead log into it and removes the log. POSIX locks show whether
another connection is open, but they belong to the process: they end as soon as anything in it closes the file, such as
Python's own `sqlite3`, and a forked child has none. So we lock the same bytes once more, with locks that belong to the
descriptors that SQLite has open (decision 34). On a system without such locks only the checks remain.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time

from rota.core.errors import StoreError

_SET_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)
_DATABASE = (0x40000002, 510)  # first byte and size of SQLite's shared lock on a database
_INDEX = (128, 1)  # and of its lock on the index of the log
_AGAIN = 0.005
_TICK = 20_000_000  # ns, longer than the resolution of a file system's clock
NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs", "fuse.glusterfs"}


class OpenFiles:
    """The database, its write-ahead log and the index of that log, as they were when they were opened."""

    def __init__(self, path: str) -> None:
        self._folder = os.path.dirname(path)
        self._unchanged: tuple[int, int, int] | None = None
        index = f"{path}-shm"
        self._identities = {name: identity(name) for name in (path, f"{path}-wal", index)}
        descriptors = _descriptors()
        for name, opened in self._identities.items():
            if descriptors and opened not in descriptors:
                raise StoreError(f"{name} was removed or replaced while it was being opened: try again")
        _lock(descriptors, index, _INDEX, fcntl.F_RDLCK)

    def missing(self) -> str | None:
        """Return the path of a file that was removed or replaced; None while all three are in place.

        Usually one `stat` of the folder is enough: its change time moves whenever a name in it does.
        """
        now = time.time_ns()
        try:
            folder = os.stat(self._folder)
        except OSError:
            return self._folder
        state = (folder.st_dev, folder.st_ino, folder.st_ctime_ns)
        if state == self._unchanged:
            return None
        for path, opened in self._identities.items():
            if identity(path) != opened:
                return path
        if folder.st_ctime_ns + _TICK < now:
            # A change made any sooner might get the same change time.
            self._unchanged = state
        return None


def hold(path: str, seconds: float) -> None:
    """Keep others from locking an open database exclusively. Waits up to `seconds` for a program that has done so."""
    deadline = time.monotonic() + seconds
    while not _lock(_descriptors(), path, _DATABASE, fcntl.F_RDLCK):
        if time.monotonic() > deadline:
            raise StoreError(f"{path} stayed locked by a program that keeps it for itself: is another tool open on it?")
        time.sleep(_AGAIN)


def let_go(path: str) -> None:
    """Allow exclusive locks again, our own SQLite's included."""
    _lock(_descriptors(), path, _DATABASE, fcntl.F_UNLCK)


def refuse_network(folder: str) -> None:
    """Refuse a folder on a network file system. One `stat` recognises a disk, whose device has a number of its own."""
    if os.major(os.stat(folder).st_dev):
        return
    if (kind := file_system(folder)) in NETWORK:
        raise StoreError(
            f"{folder} is on a network file system ({kind}), where SQLite cannot lock safely: use a local folder"
        )


def file_system(folder: str) -> str | None:
    """Return the kind of file system that a folder is on; None where the system does not say."""
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


def refuse_second_name(path: str) -> None:
    """Refuse a file that has another name elsewhere, under which SQLite would give it a log of its own."""
    if (names := os.stat(path).st_nlink) > 1:
        raise StoreError(
            f"{path} has {names} names (hard links), and under each it would have a log of its own: remove the others;"
            f" `find / -xdev -samefile {path}` lists them"
        )
    if _mount(path) != _mount(os.path.dirname(path)):
        raise StoreError(
            f"{path} is a mount of a single file, whose log would not lie beside that of the original:"
            " mount the folder that it is in"
        )


def _mount(path: str) -> bytes | None:
    """The mount that a path is on; None where the system does not say."""
    if not hasattr(os, "O_PATH"):
        return None
    # Closing an O_PATH descriptor ends no POSIX lock (decision 34).
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
            return next((line for line in file if line.startswith(b"mnt_id:")), None)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def identity(path: str) -> tuple[int, int] | None:
    """The device and inode of a path; None if nothing is there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _descriptors() -> dict[tuple[int, int] | None, list[int]]:
    """The descriptors of this process by file; empty where the system does not list them."""
    found: dict[tuple[int, int] | None, list[int]] = {}
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for name in names:
        try:
            file = os.fstat(int(name))
        except OSError:  # closed meanwhile
            continue
        found.setdefault((file.st_dev, file.st_ino), []).append(int(name))
    return found


def _lock(descriptors: dict[tuple[int, int] | None, list[int]], path: str, where: tuple[int, int], kind: int) -> bool:
    """Lock or unlock a range of a file on each of its descriptors; False if another lock conflicts."""
    if _SET_LOCK is None:
        return True
    wanted = struct.pack("hhqqi4x", kind, os.SEEK_SET, *where, 0)
    for descriptor in descriptors.get(identity(path), []):
        try:
            fcntl.fcntl(descriptor, _SET_LOCK, wanted)
        except BlockingIOError:
            return False
        except OSError:
            # The descriptor was closed meanwhile, or the file system has no such locks.
            pass
    return True
