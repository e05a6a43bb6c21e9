"""One call of a verb: its values, its store and its output."""

from __future__ import annotations

import os
import sys

from rota.core.errors import RotaError
from rota.core.ids import printable
from rota.core.jsontext import encode, shown
from rota.settings import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.settings import Settings
    from rota.store.store import Store


class Call:
    """The values of one call, the store it works on, and its output: stdout for the answer, stderr for the rest."""

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
        return load({"db": self._db} if self._db is not None else {})

    def store(self, make: bool = False) -> Store:
        """Open the database of this call. With `make`, create it where there is none."""
        from rota.store.open import open_store

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
