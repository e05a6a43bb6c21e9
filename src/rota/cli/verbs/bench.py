"""`bench`: rota against the raw limits of the machine, in a folder or schema of its own. No other job is touched."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from rota.cli.invocation import aside
from rota.cli.output import columns
from rota.cli.verb import Option, verb
from rota.core.errors import BadInput
from rota.store.open import POSTGRES, REMOTE, find, path_of

if TYPE_CHECKING:
    import tempfile
    from typing import Any

    from rota.cli.invocation import Call


@verb(
    "bench",
    "time rota on this machine against the raw limits beside it, in about two minutes;"
    " in a temporary folder beside the database, or a schema of its own on the server that --db or ROTA_DB names",
    "rota bench --db .rota/rota.db",
    options=(
        Option("--rounds", "how often everything is measured, in turn", "N", "count", default="3"),
        Option("--jobs", "how many jobs are worked off in each round", "J", "count", default="20000"),
    ),
)
def bench(call: Call) -> int:
    """Measure, and print the figures."""
    from rota.lab.bench.measurements import Bench, RunSize

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either way the crews are ended first
    db = call.settings().db
    if db and db.startswith(REMOTE):
        raise BadInput("bench measures a database, and an HTTP API was named: run it where the database is")
    server = db if db and db.startswith(POSTGRES) else None
    size = RunSize(rounds=call["rounds"] or 3, jobs=call["jobs"] or 20_000)
    with _folder(None if server else db) as folder:
        where = "in a schema of its own on the server" if server else f"in {os.path.dirname(folder)}"
        aside(f"measuring {where}; this takes about two minutes, and nothing is left of it")
        document = Bench(folder, server, size, aside).run()
    if call.json:
        call.document(document)
    else:
        call.lines(_lines(call, document))
    return 0


def _folder(db: str | None) -> tempfile.TemporaryDirectory[str]:
    """Make a temporary folder on the disk of the named database, else in the current folder."""
    import tempfile

    path = path_of(db) if db else find(os.getcwd())
    beside = os.path.dirname(path) if path else os.getcwd()
    try:
        return tempfile.TemporaryDirectory(prefix=".rota-bench-", dir=beside)
    except OSError as problem:
        raise BadInput(
            f"bench writes into a temporary folder in {beside}, which cannot be made: {problem.strerror};"
            " name a database in a folder you may write to: --db PATH"
        ) from problem


def _lines(call: Call, document: dict[str, Any]) -> list[str]:
    heads = ("MEASURED", "UNIT", "ROTA", "SPREAD", "RAW LIMIT", "RATIO")
    rows = [
        [figure["what"], figure["unit"], *(_cell(figure[name]) for name in ("rota", "spread", "raw", "ratio"))]
        for figure in document["figures"]
    ]
    about = f"rota {document['version']} on {document['store']}, Python {document['python']}, {document['cores']} cores"
    return [
        f"{about}; every commit on the disk, medians of {document['rounds']} rounds",
        "",
        *columns(call, heads, rows),
        "",
        "The raw limit is plain Python that writes the same rows, or hands over the same job, with nothing around it.",
    ]


def _cell(value: float | None) -> str:
    from rota.lab.percentiles import text

    return "–" if value is None else text(value)
