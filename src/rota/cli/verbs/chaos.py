"""`chaos`: faults injected into a crew of its own, in a temporary folder or schema. The user's jobs are not touched."""

from __future__ import annotations

import random
import signal
from typing import TYPE_CHECKING

from rota.cli.invocation import aside
from rota.cli.verb import Option, verb
from rota.core.errors import BadInput
from rota.store.open import POSTGRES, REMOTE

if TYPE_CHECKING:
    from typing import Any

    from rota.cli.invocation import Call
    from rota.demo.postgres_server import OwnServer

LARGEST_SEED = 1_000_000
LONGEST = 24 * 60


def _server(call: Call) -> str | None:
    """Return the PostgreSQL server on which the storm gets a schema of its own; None if none was named."""
    if (call.settings().db or "").startswith(REMOTE):
        raise BadInput(
            "chaos breaks a crew beside its database, and an HTTP API was named: run it where the database is"
        )
    url = (call.settings().db if call["store"] == "postgres" else call.db) or ""
    return url if url.startswith(POSTGRES) else None


@verb(
    "chaos",
    "break a crew of its own on purpose, and check that no job was lost or done twice; exit code 1 when one was",
    "rota chaos --seed 7 --jobs 2000 --minutes 1",
    options=(
        Option("--seed", "the same seed and options draw the same plan; without one it is drawn", "N", "whole"),
        Option(
            "--store",
            "the kind of database; postgres is a schema of its own on the server that --db or ROTA_DB names,"
            " or else a server that is started for it, and crashed too",
            "KIND",
            default="sqlite",
            choices=("sqlite", "postgres"),
        ),
        Option(
            "--over",
            "what the crew reaches: the database, or only an HTTP API in front of it, which is killed too",
            "WAY",
            default="database",
            choices=("database", "http"),
        ),
        Option("--jobs", "how many jobs are offered", "J", "count", default="2000"),
        Option("--minutes", "how long the storm lasts", "M", "number", default="1"),
        Option("--workers", "how many workers the crew has", "W", "count", default="4"),
        Option("--compare", "blow the same without a fault first, and tell how much of its pace was kept"),
        Option("--kills", "how many faults in all; without it one in every 1.5 s", "K", "whole"),
    ),
)
def chaos(call: Call) -> int:
    """Run a storm and print its report; return 1 if anything was lost, committed twice or violated."""
    from rota.lab.chaos import report

    minutes = 1.0 if call["minutes"] is None else call["minutes"]
    if not 0 < minutes <= LONGEST:
        raise BadInput(f"--minutes must be more than 0 and at most {LONGEST}, such as 0.5")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either way the crew is ended first
    url = _server(call)
    if url is None and call["store"] == "postgres":
        from rota.demo.postgres_server import own_server

        with own_server({}) as server:
            document = _run(call, minutes, server.url, server)
    else:
        document = _run(call, minutes, url, None)
    if call.json:
        call.document(document)
    else:
        call.lines(list(report.lines(document)))
    return 0 if report.is_good(document) else 1


def _run(call: Call, minutes: float, url: str | None, server: OwnServer | None) -> dict[str, Any]:
    from rota.lab.chaos.plan import DATABASE, Options
    from rota.lab.chaos.scenario import compare, run

    seed = random.randrange(LARGEST_SEED) if call["seed"] is None else call["seed"]  # noqa: S311 - a seed is no secret
    store = "sqlite" if url is None else "postgres"
    size = (call["jobs"] or 2000, minutes, call["workers"] or 4, call["kills"])
    options = Options(seed, store, *size, call["over"] or DATABASE, own_server=server is not None)
    return (compare if call["compare"] else run)(options, aside, url, server)
