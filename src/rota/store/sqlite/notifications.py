"""Notifications: a file beside the database, written after a commit that gives others something to do.

Anyone may listen, nobody binds, nothing goes stale; a lost notification costs a poll interval, never work.
"""

from __future__ import annotations

import os
import select
import sys

from rota.core.errors import StoreError
from rota.store.own_files import open_own


class NotificationFile:
    """Wakes all who listen to one file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def notify(self) -> None:
        """Wake all listeners. Failing to is no error, since all of them poll too."""
        try:
            if self._descriptor < 0:
                self._descriptor = open_own(self._path, os.O_WRONLY | os.O_CREAT)
            os.pwrite(self._descriptor, b"!", 0)
        except (OSError, StoreError):
            pass

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Listener:
    """Listens to one file from the moment it is made."""

    def __init__(self, path: str) -> None:
        os.close(open_own(path, os.O_WRONLY | os.O_CREAT))
        self._watched = -1
        if sys.platform == "linux":
            self._descriptor = _watch_inotify(path)
        else:
            self._watched = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._descriptor = _watch_kqueue(self._watched)

    def fileno(self) -> int:
        """Return a descriptor that becomes readable on a notification; below 0 where the system has none."""
        return self._descriptor

    def wait(self, seconds: float) -> bool:
        """Wait for a notification; return whether one came. Return true after a moment where the system cannot tell."""
        if self._descriptor < 0:
            select.select([], [], [], min(seconds, 0.05))
            return True
        readable, _, _ = select.select([self._descriptor], [], [], max(0.0, seconds))
        if readable:
            self.clear()
        return bool(readable)

    def clear(self) -> None:
        """Forget the notifications so far."""
        try:
            os.read(self._descriptor, 65536)
        except BlockingIOError:
            pass

    def close(self) -> None:
        for descriptor in (self._descriptor, self._watched):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._watched = -1


def _watch_inotify(path: str) -> int:
    import ctypes

    modify, cloexec, nonblock = 2, os.O_CLOEXEC, os.O_NONBLOCK
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(cloexec | nonblock)
    if descriptor >= 0 and libc.inotify_add_watch(descriptor, os.fsencode(path), modify) < 0:
        os.close(descriptor)
        return -1
    return descriptor


if sys.platform != "linux":

    def _watch_kqueue(watched: int) -> int:
        if not hasattr(select, "kqueue"):
            return -1
        queue = select.kqueue()
        flags, changes = select.KQ_EV_ADD | select.KQ_EV_CLEAR, select.KQ_NOTE_WRITE | select.KQ_NOTE_ATTRIB
        queue.control([select.kevent(watched, select.KQ_FILTER_VNODE, flags, changes)], 0)
        return os.dup(queue.fileno())
