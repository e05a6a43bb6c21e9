"""Numbers, durations and charts as text, and the widths of columns. Pure: the time is passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.record import Record
from rota.core.times import SECOND, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.times import Duration, Instant

EIGHTHS = " ▁▂▃▄▅▆▇█"
GAP = 2


def span(duration: Duration) -> str:
    """Format a duration in whole seconds."""
    return format_duration(max(0, duration) // SECOND * SECOND)


def ago(then: Instant | None, now: Instant) -> str:
    """Return the time since an instant; an empty text if there is none."""
    return "" if then is None else span(now - then)


def rate(per_second: float) -> str:
    """Format a rate: `12/s`, `0.4/s`; a dash for none."""
    if per_second <= 0:
        return "–"
    if per_second < 0.095:
        return f"{per_second * 60:.1f}/m"
    return f"{per_second:.1f}/s" if per_second < 10 else f"{count(round(per_second))}/s"


def count(number: int) -> str:
    """Format a number in at most five places: `4096`, `65.5k`, `1.2M`."""
    if number < 10_000:
        return str(number)
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number * 10 // size / 10}{letter}" if number < 100 * size else f"{number // size}{letter}"
    raise AssertionError(number)


def bars(values: Sequence[int], height: int = 1) -> list[str]:
    """Draw a chart of `height` lines, scaled to the largest value; every value above zero is visible."""
    top = max(values, default=0)
    steps = [0 if not value else max(1, round(value * height * 8 / top)) for value in values]
    return ["".join(EIGHTHS[min(8, max(0, step - 8 * line))] for step in steps) for line in range(height - 1, -1, -1)]


class Column(Record):
    """`least` to `most` places wide; a column that `grows` takes the rest; hidden in a pane below `from_width`."""

    head: str
    least: int
    most: int = 0
    right: bool = False
    grows: bool = False
    from_width: int = 0


def widths(columns: Sequence[Column], needed: Sequence[int], room: int) -> list[int]:
    """Return the width of each column, 0 if it is hidden. `needed` is the width of the widest cell of each.

    If not even the least widths fit, columns at the right are hidden; the first is always shown.
    """
    shown = [column.least if room >= column.from_width else 0 for column in columns]
    for n in reversed(range(1, len(shown))):
        if _taken(shown) > room:
            shown[n] = 0
    for n, (column, need) in enumerate(zip(columns, needed, strict=True)):
        if shown[n] and not column.grows:
            shown[n] += max(0, min(need, column.most) - column.least)
    for n in reversed(range(len(shown))):
        if shown[n]:
            shown[n] = max(columns[n].least, shown[n] - max(0, _taken(shown) - room))
    for n, column in enumerate(columns):
        if column.grows and shown[n]:
            shown[n] += max(0, room - _taken(shown))
    return shown


def _taken(shown: Sequence[int]) -> int:
    visible = [width for width in shown if width]
    return sum(visible) + GAP * max(0, len(visible) - 1)
