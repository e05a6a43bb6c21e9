"""SQL by name. Each statement is in `sql/NOUN.sql`, once, under `-- name: VERB` and a sentence (decision 2).

A dialect fills a handful of named gaps (`$int64`, `$for_update` …). It may have a text of its own for a statement,
under the same name; `NOUN.VERB many` is one that takes many rows at once.
"""

from __future__ import annotations

from os.path import dirname, join

from rota.store.engine import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = join(dirname(dirname(__file__)), "sql")
_HEADER = "-- name: "


class Statements:
    """The texts of one dialect, read when first asked for: `text("job.get")` is `get` in `sql/job.sql`."""

    def __init__(self, gaps: Mapping[str, str], own: Mapping[str, str] | None = None) -> None:
        self._gaps = {**rows.GAPS, **gaps}
        self._own = own or {}
        self._ready: dict[str, str] = {}
        self._files: dict[str, dict[str, str]] = {}

    def text(self, name: str) -> str:
        text = self._ready.get(name)
        if text is None:
            text = self._ready[name] = fill(self._own.get(name) or self._common(name), self._gaps)
        return text

    def _common(self, name: str) -> str:
        noun, verb = name.split(".")
        if noun not in self._files:
            self._files[noun] = read_statements(join(FOLDER, f"{noun}.sql"))
        return self._files[noun][verb]


def read_statements(path: str) -> dict[str, str]:
    """Read the statements of one file, without their headings."""
    with open(path, encoding="utf-8") as file:
        blocks = file.read().split(_HEADER)[1:]
    return {name.strip(): _body(body) for name, _, body in (block.partition("\n") for block in blocks)}


def _body(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()


def fill(text: str, gaps: Mapping[str, str]) -> str:
    """Fill each `$gap` of a text; an unknown gap is a bug in the text."""
    pieces = text.split("$")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        rest = piece.lstrip("abcdefghijklmnopqrstuvwxyz0123456789_")
        filled += [gaps[piece[: len(piece) - len(rest)]], rest]
    return "".join(filled)
