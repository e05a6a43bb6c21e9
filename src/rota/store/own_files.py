"""Opening the files that rota keeps beside a database, in a folder in which others may put something in their place."""

from __future__ import annotations

import os
import stat

from rota.core.errors import StoreError


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
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_uid not in _trusted(path):
        os.close(descriptor)
        raise _foreign(path)
    return descriptor


def _trusted(path: str) -> set[int]:
    owners = {0, os.geteuid()}
    for place in (os.path.dirname(path), os.path.splitext(path)[0]):
        try:
            owners.add(os.stat(place).st_uid)
        except OSError:
            pass
    return owners


def _foreign(path: str) -> StoreError:
    return StoreError(f"{path} is not a file of rota's but a link, a pipe or another user's: remove it")
