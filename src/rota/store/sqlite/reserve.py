"""Room that is kept free beside a database: forgetting writes too, so on a full disk nothing could be forgotten."""

from __future__ import annotations

import os

SIZE = 4 * 1024 * 1024
SHARE = 20  # at most this part of what is free


class Reserve:
    """A file that holds nothing."""

    def __init__(self, path: str) -> None:
        self._path = path

    def keep(self) -> None:
        """Have it, as large as the disk allows now. A file system that cannot set room aside has none."""
        if os.path.lexists(self._path):
            return
        try:
            disk = os.statvfs(os.path.dirname(self._path))
            size = min(SIZE, disk.f_bavail * disk.f_frsize // SHARE)
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
        """Let others have its room."""
        try:
            os.unlink(self._path)
        except OSError:
            pass
