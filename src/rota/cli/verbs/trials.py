"""`demo`, `chaos` and `bench`: trials of rota on this machine, each in a folder or schema of its own."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.cli.invocation import aside, columns, write
from rota.cli.verb import Argument, Option, verb
from rota.core.errors import BadInput, StoreError
from rota.lab.chaos.plan import DATABASE, Options
from rota.store.open import POSTGRES, REMOTE, find, path_of

if TYPE_CHECKING:
    from typing import Any

    from rota.cli.invocation import Call
    from rota.demo.postgres_server import OwnServer

LARGEST_SEED = 1_000_000
LONGEST = 24 * 60


@verb(
    "demo",
    "show what rota does: a crew tags a library of music, one of its workers is killed, in a few seconds;"
    " with --db postgresql://… its jobs are in a schema of their own there, which is dropped when all is well",
    "rota demo --postgres",
    arguments=(Argument("FOLDER", "where to play, a new folder; a temporary one without it", required=False),),
    options=(Option("--postgres", "on a PostgreSQL server that is started for it, and is gone afterwards"),),
)
def demo(call: Call) -> int:
    """Run the demo; return 1 if a promise was broken."""
    if call["postgres"]:
        if call.db is not None:
            raise BadInput("--postgres starts a server, and --db names one: say one of them")
        from rota.demo.postgres_server import CARELESS, own_server

        with own_server(CARELESS) as server:
            return _play(call, server.url)
    return _play(call, _server_of_demo(call.db) if call.db is not None else None)


def _play(call: Call, server: str | None) -> int:
    from rota.demo.run import NotAsPromised, Progress, check_folder, new_schema, run

    db = new_schema(server) if server is not None else None
    if call["folder"] is not None:
        check_folder(call["folder"])
    folder = os.path.abspath(call["folder"] or tempfile.mkdtemp(prefix="rota-demo-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either way the crew is ended first
    stream = sys.stderr if call.json else sys.stdout
    live = stream.isatty() and os.environ.get("TERM") != "dumb"
    progress = Progress(_aside if call.json else write, live)
    try:
        document = run(folder, progress, db)
    except NotAsPromised as problem:
        where = f"{folder} and {_schema(db)}" if db else folder
        progress.write_line(
            f"NOT as promised: {problem}; how far it came is in {where}, and why in .rota/crew.log there"
        )
        return 1
    except BaseException:
        # Whoever waits wants to see the first error, not that the server is out of reach.
        with suppress(StoreError):
            _remove(db)
        raise
    if document["is_good"]:
        _remove(db)
    if call.json:
        call.document(document)
    else:
        call.lines([*_summary(call, document), _remains(folder, db, document["is_good"])])
    return 0 if document["is_good"] else 1


def _server_of_demo(db: str) -> str:
    if not db.startswith(POSTGRES):
        raise BadInput("the demo makes a file of its own; --db is for a server: --db postgresql://user@host/database")
    return db


def _schema(db: str) -> str:
    """Return the name of the schema for people, without the rest of the URL, which may hold a password."""
    return f"schema {db.rpartition('schema=')[2]}"


def _remove(db: str | None) -> None:
    """Drop the schema of the demo."""
    if db is not None:
        from rota.settings import Settings
        from rota.store.postgres.open import remove

        remove(db, Settings())


def _summary(call: Call, document: dict[str, Any]) -> list[str]:
    pools = [[pool[name] for name in ("pool", "workers", "done", "failed", "restarts")] for pool in document["pools"]]
    names = ("album", "loudness", "tempo", "brightness", "gain")
    albums = [
        [
            album["album"],
            f"{album['loudness']} dB",
            album["tempo"],
            f"{album['brightness']} Hz",
            f"{album['gain']:+} dB",
        ]
        for album in document["albums"]
    ]
    killed = document["killed"]
    if document["is_good"]:
        verdict = f"All {document['pieces']} pieces are tagged, each committed once"
    else:
        verdict = f"NOT as promised: {document['tagged_once']} of {document['pieces']} pieces are tagged once"
    return [
        "",
        *columns(call, ("POOL", "WORKERS", "DONE", "FAILED", "RESTARTS"), pools),
        "",
        *columns(call, [name.upper() for name in names], albums),
        "",
        f"{verdict}; the killed worker's ran again after {killed['again_after_ms']} ms."
        f" It took {document['seconds']} s.",
    ]


def _remains(folder: str, db: str | None, is_good: bool) -> str:
    """Return a line about what the demo leaves behind, and what to do with it."""
    if db is None:
        return f"The library and its database are in {folder}: look at them with `rota list`, or remove the folder."
    jobs = "the jobs had a schema of their own, which is removed" if is_good else f"the jobs are in {_schema(db)}"
    return f"The library is in {folder}; {jobs}."


def _aside(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _server_of_storm(call: Call) -> str | None:
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
    url = _server_of_storm(call)
    if url is None and call["store"] == "postgres":
        from rota.demo.postgres_server import own_server

        with own_server({}) as server:
            document = _storm(call, minutes, server.url, server)
    else:
        document = _storm(call, minutes, url, None)
    if call.json:
        call.document(document)
    else:
        call.lines(list(report.lines(document)))
    return 0 if report.is_good(document) else 1


def _storm(call: Call, minutes: float, url: str | None, server: OwnServer | None) -> dict[str, Any]:
    from rota.lab.chaos.scenario import compare, run

    seed = random.randrange(LARGEST_SEED) if call["seed"] is None else call["seed"]  # noqa: S311 - a seed is no secret
    store = "sqlite" if url is None else "postgres"
    size = (call["jobs"] or 2000, minutes, call["workers"] or 4, call["kills"])
    options = Options(seed, store, *size, call["over"] or DATABASE, own_server=server is not None)
    return (compare if call["compare"] else run)(options, aside, url, server)


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
    """Measure rota beside the raw limits of the machine, and print the figures."""
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
        call.lines(_figures(call, document))
    return 0


def _folder(db: str | None) -> tempfile.TemporaryDirectory[str]:
    """Make a temporary folder on the disk of the named database, else in the current folder."""
    path = path_of(db) if db else find(os.getcwd())
    beside = os.path.dirname(path) if path else os.getcwd()
    try:
        return tempfile.TemporaryDirectory(prefix=".rota-bench-", dir=beside)
    except OSError as problem:
        raise BadInput(
            f"bench writes into a temporary folder in {beside}, which cannot be made: {problem.strerror};"
            " name a database in a folder you may write to: --db PATH"
        ) from problem


def _figures(call: Call, document: dict[str, Any]) -> list[str]:
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
