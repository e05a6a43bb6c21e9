"""One call of a verb: its values, its store, and its output as JSON or as text for people.

Text is aligned in columns, coloured on a terminal, and holds no control characters.
"""

from __future__ import annotations

import os
import sys

from rota.core.errors import RotaError
from rota.core.ids import printable
from rota.core.jsontext import encode, shown
from rota.core.times import format_duration, format_instant
from rota.settings import load
from rota.store.open import open_store

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rota.core.job import Job
    from rota.core.times import Instant
    from rota.settings import Settings
    from rota.store.store import Store

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


class Call:
    """The values of one call, the store it works on, and its output: stdout for the answer, stderr for the rest.

    A verb finds the value of an argument or option under its key: `call["max_attempts"]` is that of `--max-attempts`.
    """

    def __init__(self, values: dict[str, Any], json: bool = False, db: str | None = None) -> None:
        self._values = values
        self._db = db
        self.json = json

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    @property
    def db(self) -> str | None:
        """The database that `--db` names in this call."""
        return self._db

    def settings(self) -> Settings:
        """Load the settings; `--db` of this call wins over all others."""
        return load({"db": self._db} if self._db is not None else {})

    def store(self, make: bool = False) -> Store:
        """Open the database of this call. With `make`, create it where there is none."""
        settings = self.settings()
        return open_store(settings.db, settings, make=make, told=aside)

    def document(self, value: object) -> None:
        """Answer with one JSON document, indented on a terminal."""
        self._put_json(encode(value, indent=2 if self.on_terminal else None))

    def record(self, value: object) -> None:
        """Answer with one JSON document of many, on one line."""
        self._put_json(encode(value))

    def _put_json(self, text: str) -> None:
        """Write JSON as UTF-8; on a terminal, with an escape for every character that could control it."""
        is_utf8 = sys.stdout.encoding.lower() == "utf-8"
        if self.on_terminal:
            text = shown(text, ascii_only=not is_utf8)
        elif not is_utf8:
            sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        write(f"{text}\n")

    def answer(self, document: object, text: str) -> int:
        """Answer with the document if `--json` was given, otherwise with the text; return the exit code 0."""
        if self.json:
            self.document(document)
        else:
            self.say(text)
        return 0

    def listing(self, documents: Sequence[object], table: Callable[[], list[str]], empty: str) -> int:
        """Answer with the documents if `--json` was given, otherwise with a table, or a sentence if there are none.

        Args:
            documents: The JSON documents.
            table: Returns the lines of the table.
            empty: The sentence.

        Returns:
            The exit code 0.
        """
        if self.json:
            self.document(documents)
        elif documents:
            self.lines(table())
        else:
            self.say(empty)
        return 0

    def say(self, text: str) -> None:
        """Answer with a line of text, without its control characters."""
        write(printable(text) + "\n")

    def lines(self, lines: list[str]) -> None:
        """Answer with lines that hold no control characters."""
        write("".join(f"{line}\n" for line in lines))

    @property
    def on_terminal(self) -> bool:
        return sys.stdout.isatty()

    @property
    def colour(self) -> bool:
        """Whether the answer may be coloured: only on a terminal, and not where NO_COLOR is set."""
        return self.on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write(text: str) -> None:
    """Write part of the answer to stdout and flush it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise RotaError(f"the answer could not be written: {problem.strerror}") from problem


def aside(text: str) -> None:
    """Print a line on stderr, beside the answer."""
    sys.stderr.write(f"rota: {printable(text)}\n")


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
