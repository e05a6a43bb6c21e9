"""When a worker has done enough: after so many jobs, or when it has grown too large."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.settings import Settings

LOOK_EVERY = 0.02
_STATM = "/proc/self/statm"


class Recycling:
    """Asked after every job. The count costs nothing; the size is looked at after a long job, else now and then."""

    def __init__(self, settings: Settings) -> None:
        self.is_on = bool(settings.max_jobs or settings.max_rss)
        self._jobs_left = settings.max_jobs
        self._most_bytes = settings.max_rss * 1_000_000
        self._look_at = 0.0

    def is_due(self) -> bool:
        self._jobs_left -= 1
        return self._jobs_left == 0 or (self._most_bytes > 0 and self._is_large())

    def _is_large(self) -> bool:
        if time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + LOOK_EVERY
        return resident() > self._most_bytes


def resident() -> int:
    """The resident size of this process in bytes; where the system does not tell it, the largest it ever was."""
    try:
        with open(_STATM, "rb", buffering=0) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
