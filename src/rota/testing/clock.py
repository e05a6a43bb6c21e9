"""A clock that stands still until a test moves it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota.core.errors import BadInput
from rota.core.times import format_instant, parse_duration, parse_instant

if TYPE_CHECKING:
    from rota.core.times import Instant


class Clock:
    """What a temporary store takes for the time. It begins now, or at a time such as `"2026-03-28T12:00Z"`."""

    def __init__(self, at: str | None = None) -> None:
        now = time.time_ns() // 1000
        self._now = now if at is None else parse_instant(at, now)

    def forward(self, by: str) -> None:
        """Let so much time pass, such as `"1h30m"`: what is due by then is due."""
        self._now += parse_duration(by)

    def forward_to(self, at: str) -> None:
        """Let time pass until then."""
        wanted = parse_instant(at, self._now)
        if wanted < self._now:
            raise BadInput(f"{at} is behind the clock, which says {self}: it only goes forward")
        self._now = wanted

    def now(self) -> Instant:
        return self._now

    def wall(self) -> Instant:
        return self._now

    def __str__(self) -> str:
        return format_instant(self._now)
