"""Text for people: aligned columns, a little colour on a terminal, and nothing in it that could steer one."""

from __future__ import annotations

import os

from rota.core.ids import printable
from rota.core.times import format_duration, format_instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.cli.invocation import Call
    from rota.core.job import Job
    from rota.core.times import Instant

_RED, _GREEN, _YELLOW, _CYAN, _DIM = "31", "32", "33", "36", "2"
_BOLD = "1"
_COLOURS = {
    **dict.fromkeys(("failed", "dead", "bad", "expired"), _RED),
    **dict.fromkeys(("done", "ok", "completed", "idle", "open"), _GREEN),
    **dict.fromkeys(("blocked", "late", "paused", "warn", "stopping"), _YELLOW),
    **dict.fromkeys(("active", "busy", "ready"), _CYAN),
    **dict.fromkeys(("cancelled", "stopped", "scheduled", "released"), _DIM),
}
_COLOURED_HEADS = ("STATUS", "CHECK")


def columns(call: Call, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table, one line each; on a terminal its last column is cut to fit."""
    cells = [[printable("" if cell is None else str(cell)) for cell in row] for row in rows]
    widths = [max(width(line[n]) for line in (heads, *cells)) for n in range(len(heads))]
    most = _terminal_width() if call.on_terminal else None
    lines = [_line(heads, widths, most)]
    if call.colour:
        lines[0] = paint(lines[0], _BOLD)
    for row in cells:
        line = _line(row, widths, most)
        for n, head in enumerate(heads):
            if call.colour and head in _COLOURED_HEADS and row[n] in _COLOURS:
                start = sum(widths[:n]) + 2 * n
                line = line[:start] + paint(row[n], _COLOURS[row[n]]) + line[start + len(row[n]) :]
        lines.append(line)
    return lines


def page(pairs: Iterable[tuple[str, object]]) -> list[str]:
    """Names and values below each other; what has no value is left out."""
    shown = [(name, printable(str(value))) for name, value in pairs if value not in (None, "", ())]
    widest = max((len(name) for name, _ in shown), default=0)
    return [f"{name:<{widest}}  {value}" for name, value in shown]


def job_table(call: Call, found: Sequence[Job], now: Instant) -> list[str]:
    """Jobs as a list."""
    heads = ("ID", "STATUS", "QUEUE", "PRIORITY", "ATTEMPTS", "AGE", "TITLE")
    rows = [
        (
            job.id,
            job.status,
            job.queue,
            job.priority,
            f"{job.attempts}/{job.max_attempts}",
            age(job.created_at, now),
            job.title,
        )
        for job in found
    ]
    return columns(call, heads, rows)


def width(text: str) -> int:
    """How many places a text takes on a terminal: wide letters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def paint(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"


def age(then: Instant | None, now: Instant) -> str:
    """How long ago, roughly."""
    return "" if then is None else format_duration(max(0, now - then) // 1_000_000 * 1_000_000)


def moment(instant: Instant | None) -> str | None:
    """A time for people, to the second."""
    return None if instant is None else format_instant(instant)[:19] + "Z"


def _line(cells: Sequence[str], widths: Sequence[int], most: int | None) -> str:
    padded = [cell + " " * (place - width(cell)) for cell, place in zip(cells, widths, strict=True)]
    line = "  ".join(padded).rstrip()
    while most is not None and width(line) > most:
        line = line[: most - 2 if line.isascii() else len(line) - 2] + "…"
    return line


def _terminal_width() -> int:
    try:
        return max(20, os.get_terminal_size(1).columns or 80)
    except OSError:
        return 80
