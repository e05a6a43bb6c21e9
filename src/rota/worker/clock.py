"""The clock that a worker and its orchestrator share: the time since boot, sleep included."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Instant

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot() -> Instant:
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1000
