"""The planted bugs: deliberate mistakes kept as data in the TOML files of this folder, and the tests of each part."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
PARTS = "parts.toml"
REPLACED = "replaced.toml"  # drawn mutants that change nothing observable, with the reason


class BadData(Exception):
    """A planted bug that cannot be read, or that does not apply to the sources."""


@dataclass(frozen=True)
class Change:
    """One edit: `old` occurs exactly once within `symbol`, over all places that have this name."""

    symbol: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """A planted bug. `invariant`: the small storm must name it; other bugs are caught by the tests of their part."""

    name: str
    part: str
    changes: tuple[Change, ...]
    breaks: str
    file: Path
    caught_by: str | None = None
    seed: int | None = None
    invariant: str | None = None

    @property
    def symbol(self) -> str:
        return self.changes[0].symbol


KNOWN = {"name", "part", "symbol", "old", "new", "also", "breaks", "caught_by", "seed", "invariant"}


def load_bugs(folder: Path = FOLDER) -> list[Bug]:
    """Every planted bug, in the order of the files and of the entries in them.

    Raises:
        BadData: An entry lacks a field, has one too many, or a name occurs twice.
    """
    files = sorted(path for path in folder.glob("*.toml") if path.name not in (PARTS, REPLACED))
    bugs = [bug for path in files for bug in _load_file(path)]
    names = [bug.name for bug in bugs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadData(f"names must be unique; these occur more than once: {', '.join(twice)}")
    return bugs


def _load_file(path: Path) -> list[Bug]:
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("bug", [])
    except tomllib.TOMLDecodeError as error:
        raise BadData(f"{path.name}: {error}") from error
    return [_bug(entry, path) for entry in entries]


def _bug(entry: dict[str, object], path: Path) -> Bug:
    name = str(entry.get("name"))
    if unknown := entry.keys() - KNOWN:
        raise BadData(f"{path.name}: {name}: unknown field {', '.join(sorted(unknown))}")
    if missing := {"name", "part", "symbol", "old", "new", "breaks"} - entry.keys():
        raise BadData(f"{path.name}: {name}: missing field {', '.join(sorted(missing))}")
    also = entry.get("also", [])
    assert isinstance(also, list)
    changes = tuple(Change(str(each["symbol"]), str(each["old"]), str(each["new"])) for each in [entry, *also])
    caught_by, seed, invariant = entry.get("caught_by"), entry.get("seed"), entry.get("invariant")
    return Bug(
        name,
        str(entry["part"]),
        changes,
        str(entry["breaks"]),
        path,
        None if caught_by is None else str(caught_by),
        seed if isinstance(seed, int) else None,
        None if invariant is None else str(invariant),
    )


def load_parts(folder: Path = FOLDER) -> dict[str, list[str]]:
    """The test paths of each part, cheapest first."""
    parts: dict[str, list[str]] = tomllib.loads((folder / PARTS).read_text(encoding="utf-8"))
    return parts


def write_hint(bug: Bug, caught_by: str) -> None:
    """Write `caught_by` into the bug's entry; everything else in the file stays as it is."""
    text = bug.file.read_text(encoding="utf-8")
    head, *blocks = re.split(r"(?m)^(?=\[\[bug\]\]$)", text)
    line = f"caught_by = {json.dumps(caught_by)}"
    for place, block in enumerate(blocks):
        if not re.search(rf'(?m)^name = "{re.escape(bug.name)}"', block):
            continue
        changed, count = re.subn(r"(?m)^caught_by = .*$", lambda _: line, block)
        if not count:
            body = block.rstrip("\n")
            changed = f"{body}\n{line}{block[len(body) :]}"
        blocks[place] = changed
    bug.file.write_text(head + "".join(blocks), encoding="utf-8")
