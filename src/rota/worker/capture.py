"""Capture files: the output of a command, kept up to a limit. The command never waits for the disk to have room."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

PIECE = 64 * 1024


class Folder:
    """The folder of captures: it is ours, and nothing is written through a link."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = limit

    def open(self, name: str, keep: int) -> Sink:
        """Create a file; one that an earlier database left there is removed."""
        os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
        try:
            os.mkdir(self._path, 0o700)
        except FileExistsError:
            pass
        # O_EXCL and O_NOFOLLOW: neither the folder nor the file may be a link that somebody else placed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._refuse_foreign(folder)
            try:
                return Sink(os.open(name, flags, 0o600, dir_fd=folder), self._limit, keep)
            # Of another database that used this folder before: names of runs begin again in a new one.
            except FileExistsError:
                os.unlink(name, dir_fd=folder)
                return Sink(os.open(name, flags, 0o600, dir_fd=folder), self._limit, keep)
        finally:
            os.close(folder)

    def _refuse_foreign(self, folder: int) -> None:
        """Refuse another user's folder, because its owner could replace every file in it."""
        owner = os.fstat(folder).st_uid
        # The owner of the folder above could replace this one anyway, and so has to be trusted already.
        if owner not in (0, os.geteuid(), os.stat(os.path.dirname(self._path) or ".").st_uid):
            text = f"another user's folder (uid {owner}) is in its place, which must be removed"
            raise PermissionError(errno.EACCES, text, self._path)


class Sink:
    """A file for a stream, up to a limit. `tail` is the end of the stream, of at most `keep` bytes."""

    def __init__(self, descriptor: int, limit: int, keep: int) -> None:
        self._descriptor = descriptor
        self._room = limit
        self._keep = keep
        self._tail = bytearray()
        self.total = 0
        self.dropped = 0

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        os.close(self._descriptor)

    @property
    def tail(self) -> bytes:
        return bytes(self._tail[-self._keep :])

    def put(self, data: bytes) -> None:
        """Write as much as there is room for, and count the rest as dropped; a full disk counts as no room."""
        self.total += len(data)
        # Trimmed seldom, not with each piece.
        self._tail += data
        if len(self._tail) > 2 * self._keep + PIECE:
            del self._tail[: -self._keep]
        fitting, written = data[: self._room], 0
        try:
            while written < len(fitting):
                written += os.write(self._descriptor, fitting[written:])
        except OSError:
            self._room = written
        self._room -= written
        self.dropped += len(data) - written
