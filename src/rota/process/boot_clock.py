"""The time since boot, sleep included: the clock that a worker, its orchestrator and the leases on a host share."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Instant

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot() -> Instant:
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1000


def boot_id() -> str:
    """What tells this boot from the last."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        import subprocess

        asked = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=True)
        return asked.stdout.strip()
