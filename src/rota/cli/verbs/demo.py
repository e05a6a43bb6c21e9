"""`demo`: a short run of a crew, in a folder or schema of its own. The user's jobs are not touched."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.cli.invocation import write
from rota.cli.output import columns
from rota.cli.verb import Argument, Option, verb
from rota.core.errors import BadInput, StoreError
from rota.store.open import POSTGRES

if TYPE_CHECKING:
    from typing import Any

    from rota.cli.invocation import Call


@verb(
    "demo",
    "show what rota does: a crew tags a library of music, one of its workers is killed, in a few seconds;"
    " with --db postgresql://… its jobs are in a schema of their own there, which is dropped when all is well",
    "rota demo --postgres",
    arguments=(Argument("FOLDER", "where to play, a new folder; a temporary one without it", required=False),),
    options=(Option("--postgres", "on a PostgreSQL server that is started for it, and is gone afterwards"),),
)
def demo(call: Call) -> int:
    """The exit code is 1 when a promise was broken."""
    if call["postgres"]:
        if call.db is not None:
            raise BadInput("--postgres starts a server, and --db names one: say one of them")
        from rota.demo.postgres_server import CARELESS, own_server

        with own_server(CARELESS) as server:
            return _play(call, server.url)
    return _play(call, _server(call.db) if call.db is not None else None)


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
        with suppress(StoreError):  # report the first error, not that the server is out of reach
            _remove(db)
        raise
    if document["is_good"]:
        _remove(db)
    if call.json:
        call.document(document)
    else:
        call.lines([*_summary(call, document), _left(folder, db, document["is_good"])])
    return 0 if document["is_good"] else 1


def _server(db: str) -> str:
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


def _left(folder: str, db: str | None, is_good: bool) -> str:
    """Return a line about what is left behind, and what to do with it."""
    if db is None:
        return f"The library and its database are in {folder}: look at them with `rota list`, or remove the folder."
    jobs = "the jobs had a schema of their own, which is removed" if is_good else f"the jobs are in {_schema(db)}"
    return f"The library is in {folder}; {jobs}."


def _aside(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
