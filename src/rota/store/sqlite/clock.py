"""The store's clock on SQLite: the boot clock, which no change of the wall clock moves, plus an offset per boot."""

from __future__ import annotations

import time

from rota.process.host import since_boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from rota.core.times import Instant

    class Clock(Protocol):
        """Two readings: `now` for leases, `wall` for schedules."""

        def now(self) -> Instant: ...

        def wall(self) -> Instant: ...


def wall() -> Instant:
    return time.time_ns() // 1000


class BootClock:
    """The clock of one boot."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def now(self) -> Instant:
        return since_boot() + self._offset

    def wall(self) -> Instant:
        return wall()
