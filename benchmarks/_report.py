"""How a benchmark tells what it measured: one aligned table for people, one JSON document for programs."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from rota.lab.percentiles import median as median
from rota.lab.percentiles import percentile as percentile
from rota.lab.percentiles import spread as spread
from rota.lab.percentiles import text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Cell = str | int | float | bool | None


def arguments(what: str) -> ArgumentParser:
    """The options that every benchmark has."""
    parser = ArgumentParser(description=what)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    parser.add_argument("--rounds", type=int, default=None, help="how often everything is measured, interleaved")
    return parser


def show(title: str, rows: Sequence[Mapping[str, Cell]], as_json: bool) -> None:
    """Print what was measured; every row has the same columns."""
    if as_json:
        print(json.dumps({"benchmark": title, "rows": rows}, indent=2))
        return
    if not rows:
        print(f"{title}: nothing was measured")
        return
    table = [list(rows[0]), *([cell_text(row[column]) for column in rows[0]] for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    print(title)
    for line in table:
        cells = [
            cell.ljust(width) if not index else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  " + "  ".join(cells).rstrip())


def cell_text(cell: Cell) -> str:
    match cell:
        case None:
            return "–"
        case bool():
            return "yes" if cell else "NO"
        case int():
            return f"{cell:,}"
        case float():
            return text(cell)
    return cell
