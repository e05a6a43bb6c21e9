"""Text for people: aligned columns, colour on a terminal, and no control characters."""

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
    """Return the lines of a table; on a terminal they are cut to its width."""
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
    """Return names and values, one pair per line, without the empty ones."""
    shown = [(name, printable(str(value))) for name, value in pairs if value not in (None, "", ())]
    widest = max((len(name) for name, _ in shown), default=0)
    return [f"{name:<{widest}}  {value}" for name, value in shown]


def job_table(call: Call, jobs: Sequence[Job], now: Instant) -> list[str]:
    """Return a table of jobs."""
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
        for job in jobs
    ]
    return columns(call, heads, rows)


def width(text: str) -> int:
    """Return how many columns a text takes on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def paint(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"


def age(then: Instant | None, now: Instant) -> str:
    """Return how long ago an instant was, to the second."""
    return "" if then is None else format_duration(max(0, now - then) // 1_000_000 * 1_000_000)


def moment(instant: Instant | None) -> str | None:
    """Format an instant for people, to the second."""
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
