"""Numbers and durations for people, and the bars of a small chart. Pure: the time is passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.times import SECOND, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.times import Duration, Instant

EIGHTHS = " ▁▂▃▄▅▆▇█"


def span(duration: Duration) -> str:
    """A duration to the second, for people who watch it grow."""
    return format_duration(max(0, duration) // SECOND * SECOND)


def ago(then: Instant | None, now: Instant) -> str:
    """For how long something has been so; nothing where that is not known."""
    return "" if then is None else span(now - then)


def rate(per_second: float) -> str:
    """`12/s`, `0.4/s`; a dash for none."""
    if per_second <= 0:
        return "–"
    if per_second < 0.095:
        return f"{per_second * 60:.1f}/m"
    return f"{per_second:.1f}/s" if per_second < 10 else f"{count(round(per_second))}/s"


def count(number: int) -> str:
    """A number in at most five places: `4096`, `65.5k`, `1.2M`."""
    if number < 10_000:
        return str(number)
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number * 10 // size / 10}{letter}" if number < 100 * size else f"{number // size}{letter}"
    raise AssertionError(number)


def bars(values: Sequence[int], height: int = 1) -> list[str]:
    """A chart of so many lines, the largest value at its top; whatever is not zero is seen."""
    top = max(values, default=0)
    steps = [0 if not value else max(1, round(value * height * 8 / top)) for value in values]
    return ["".join(EIGHTHS[min(8, max(0, step - 8 * line))] for step in steps) for line in range(height - 1, -1, -1)]
