"""What the disk itself takes to keep a page."""

from __future__ import annotations

import os
import time

PAGE = b"\0" * 4096


def sync_times(folder: str, times: int) -> list[float]:
    """Milliseconds for each page that is appended to a file and synced."""
    path, found = os.path.join(folder, "pages"), []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(times):
            began = time.perf_counter()
            os.write(descriptor, PAGE)
            os.fsync(descriptor)
            found.append((time.perf_counter() - began) * 1e3)
    finally:
        os.close(descriptor)
        os.unlink(path)
    return found
