"""How far the demo is: bars that move on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 32
EIGHTHS = " ▏▎▍▌▋▊▉"
QUARTERS = 4


class Screen:
    """Lines and bars, written by `write`; `live` redraws the bars below the last line."""

    def __init__(self, write: Callable[[str], None], live: bool) -> None:
        self._write = write
        self._live = live
        self._began = time.monotonic()
        self._bars: dict[str, tuple[int, int]] = {}
        self._drawn = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """A line that stays."""
        self._wipe()
        self._write(f"{self.seconds:5.1f} s  {text}\n")
        self._draw()

    def progress(self, what: str, done: int, total: int) -> None:
        """How much of something is done; elsewhere than on a terminal told at every quarter."""
        before = self._bars.get(what, (0, total))
        if (done, total) == before:
            return
        self._bars[what] = done, total
        if self._live:
            self._wipe()
            self._draw()
        elif total and done * QUARTERS // total > before[0] * QUARTERS // total:
            self._write(f"{self.seconds:5.1f} s  {what:<12} {done} of {total}\n")

    def _wipe(self) -> None:
        if self._drawn:
            self._write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0

    def _draw(self) -> None:
        if self._live:
            bars = self._bars.items()
            self._write("".join(f"{what:<12} {bar(done, total)} {done}/{total}\n" for what, (done, total) in bars))
            self._drawn = len(bars)


def bar(done: int, total: int, width: int = WIDTH) -> str:
    """So much of so many places, to an eighth of one."""
    filled = width * 8 * done // max(1, total)
    whole, rest = divmod(min(filled, width * 8), 8)
    return ("█" * whole + (EIGHTHS[rest] if rest else "")).ljust(width, "░" if whole + bool(rest) < width else " ")
