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

    Where not even the least of all fit, those at the right are left out; the first is always there.
    """
    found = [column.least if room >= column.from_width else 0 for column in columns]
    for n in reversed(range(1, len(found))):
        if _taken(found) > room:
            found[n] = 0
    for n, (column, need) in enumerate(zip(columns, needed, strict=True)):
        if found[n] and not column.grows:
            found[n] += max(0, min(need, column.most) - column.least)
    for n in reversed(range(len(found))):
        if found[n]:
            found[n] = max(columns[n].least, found[n] - max(0, _taken(found) - room))
    for n, column in enumerate(columns):
        if column.grows and found[n]:
            found[n] += max(0, room - _taken(found))
    return found


def _taken(found: Sequence[int]) -> int:
    shown = [width for width in found if width]
    return sum(shown) + GAP * max(0, len(shown) - 1)
