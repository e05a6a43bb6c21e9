"""The store's clock on SQLite: the boot clock, which no change of the wall clock moves, plus an offset per boot."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from rota.core.times import Instant

    class Clock(Protocol):
        """Two readings: `now` for leases, `wall` for schedules."""

        def now(self) -> Instant: ...

        def wall(self) -> Instant: ...


_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot() -> int:
    """Microseconds since the machine started, sleep included."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1000


def wall() -> Instant:
    return time.time_ns() // 1000


def boot_id() -> str:
    """What tells this boot from the last."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        import subprocess

        asked = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=True)
        return asked.stdout.strip()


class BootClock:
    """The clock of one boot."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def now(self) -> Instant:
        return since_boot() + self._offset

    def wall(self) -> Instant:
        return wall()
