"""Columns for a width: which are shown, and how wide each is. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = 2


class Column(Record):
    """`least` to `most` places; one that `grows` takes what is left; `from_width`: shown only in so wide a pane."""

    head: str
    least: int
    most: int = 0
    right: bool = False
    grows: bool = False
    from_width: int = 0


def widths(columns: Sequence[Column], needed: Sequence[int], room: int) -> list[int]:
    """How wide each column is, 0 for one that is not shown. `needed`: what the widest cell of each would take.

    What does not fit at its least is cut from the right, so that the first columns are always there.
    """
    found = [
        0 if room < column.from_width else max(column.least, min(need, max(column.least, column.most)))
        for column, need in zip(columns, needed, strict=True)
    ]
    for n in reversed(range(len(found))):
        over = _taken(found) - room
        if over > 0 and found[n] and not columns[n].grows:
            found[n] = max(columns[n].least, found[n] - over)
    for n in reversed(range(1, len(found))):
        if _taken(found) > room and found[n]:
            found[n] = 0
    for n, column in enumerate(columns):
        if column.grows and found[n]:
            found[n] += max(0, room - _taken(found))
    return found


def _taken(found: Sequence[int]) -> int:
    shown = [width for width in found if width]
    return sum(shown) + GAP * max(0, len(shown) - 1)
