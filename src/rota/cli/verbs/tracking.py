"""Worker tracking in a PostgreSQL database: `tracking install`, `uninstall`, `status` and `prune`."""

from __future__ import annotations

import sys

from rota.cli.invocation import age, columns, paint
from rota.cli.verb import Option, verb
from rota.core.errors import BadInput, NotFound, Refused
from rota.core.times import SECOND, instant_of
from rota.store.open import POSTGRES, REMOTE, open_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rota.cli.invocation import Call
    from rota.core.times import Instant
    from rota.documents import Document
    from rota.tracking.connections import Connection

LISTED = 20
_WIDTH = 10
_GOOD, _FAIR = 0.99, 0.9
_NO_VECTORIZER = "no vectorizers yet"


@verb(
    "tracking install",
    "make worker tracking in a PostgreSQL database, where it is absent",
    "rota tracking install --db postgresql://owner@localhost/app --grant embedder",
    options=(Option("--grant", "give this role what a worker needs", "ROLE"),),
)
def install(call: Call) -> int:
    with _connection(call) as connection:
        from rota.tracking.schema import install

        done = install(connection, call["grant"])
    if call.json:
        call.document({"made": done.made, "kept": done.kept, "dropped": done.dropped, "granted": call["grant"]})
        return 0
    call.say(f"made {', '.join(done.made)}" if done.made else "everything was there already")
    for name in done.dropped:
        call.say(f"dropped the older {name}")
    if call["grant"]:
        call.say(f"{call['grant']} may report as a worker")
    return 0


@verb(
    "tracking uninstall",
    "drop what `tracking install` made, and nothing else",
    "rota tracking uninstall --yes",
    options=(Option("--yes", "do not ask; needed where there is no terminal"),),
)
def uninstall(call: Call) -> int:
    with _connection(call) as connection:
        from rota.tracking.schema import uninstall
        from rota.tracking.status import read

        if not call["yes"]:
            health = read(connection, 0)
            workers, vectorizers = health.workers, len(health.vectorizers)
            _ask(f"drop the tracking tables, with {workers:,} workers and {vectorizers:,} vectorizers?")
        done = uninstall(connection)
    if call.json:
        call.document({"dropped": done.dropped, "kept": done.kept})
        return 0
    call.say(f"dropped {', '.join(done.dropped)}" if done.dropped else "nothing here was made by rota")
    if done.kept:
        call.say(f"kept {', '.join(done.kept)}: they were there before")
    return 0


@verb(
    "tracking status",
    "living and dead workers, and how each vectorizer is doing",
    "rota tracking status --json",
    options=(
        Option("--limit", "how many of the living and of the dead, the latest first", "N", "count", default="20"),
    ),
)
def status(call: Call) -> int:
    document, now = _over_http(call) if _url(call).startswith(REMOTE) else _in_the_database(call)
    if call.json:
        call.document(document)
    else:
        call.lines([*_workers(call, document, now), "", *_vectorizers(call, document, now)])
    return 0


def _in_the_database(call: Call) -> tuple[Document, Instant]:
    with _connection(call) as connection:
        from rota.tracking.status import document, read

        health = read(connection, call["limit"] or LISTED)
    return document(health), round(health.now.timestamp() * SECOND)


def _over_http(call: Call) -> tuple[Document, Instant]:
    """Return the document of the API that `ROTA_DB` names, and the time by its clock."""
    with open_store(_url(call), call.settings()) as store:
        assert store.link is not None
        document = store.link.get("/tracking", limit=call["limit"] or LISTED)
        if not document.pop("enabled"):
            raise NotFound(f"there is no tracking where {store.link.address.shown} looks: see `rota tracking install`")
        return document, store.now()


@verb(
    "tracking prune",
    "forget workers that have been dead for long",
    "rota tracking prune --older 7d",
    options=(Option("--older", "whose last beat was longer ago", "D", "duration", default="7d"),),
)
def prune(call: Call) -> int:
    with _connection(call) as connection:
        from rota.tracking.status import prune

        older = call["older"]
        gone = prune(connection, 7 * 86_400 * SECOND if older is None else older)
    return call.answer({"workers": gone}, f"forgot {gone:,} worker{'s' * (gone != 1)}")


def bar(share: float, filled: str = "█", empty: str = "░") -> str:
    """Return a share as a bar, full only if nothing failed and empty only if nothing succeeded."""
    cells = round(share * _WIDTH)
    if 0 < share < 1:
        cells = min(max(cells, 1), _WIDTH - 1)
    return filled * cells + empty * (_WIDTH - cells)


def _url(call: Call) -> str:
    """Return the URL of the database, or an empty string."""
    settings = call.settings()
    return call.db or settings.tracking_url or settings.db or ""


def _connection(call: Call) -> AbstractContextManager[Connection]:
    url = _url(call)
    if url.startswith(REMOTE):
        raise BadInput("this works on the database itself, and an HTTP API was named: do it where the database is")
    if not url.startswith(POSTGRES):
        raise BadInput("tracking needs a PostgreSQL URL: write for example --db postgresql://user@host:5432/database")
    from rota.tracking.connections import opened

    return opened(url)


def _ask(question: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput("tracking uninstall drops tables: say --yes to mean it")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refused("nothing was changed")


def _workers(call: Call, document: Document, now: Instant) -> list[str]:
    lines = [
        f"{document['live']:,} of {document['workers']:,} workers live, {document['dead']:,} dead (two beats missed)"
    ]
    heads = ("WORKER", "VERSION", "STATE", "LAST BEAT", "DONE", "FAILED", "LAST ERROR")
    rows = [
        (
            worker["id"],
            worker["version"],
            state,
            f"{age(instant_of(worker['last_heartbeat']), now)} ago",
            worker["success_count"],
            worker["error_count"],
            worker["last_error_message"],
        )
        for state in ("live", "dead")
        for worker in document[f"{state}_workers"]
    ]
    if rows:
        lines += columns(call, heads, rows)
    hidden = document["workers"] - len(rows)
    return [*lines, f"and {hidden:,} more"] if hidden else lines


def _vectorizers(call: Call, document: Document, now: Instant) -> list[str]:
    if not document["vectorizers"]:
        return [_NO_VECTORIZER]
    heads = ("VECTORIZER", "SOURCE", "HEALTH", "DONE", "FAILED", "UPDATED", "LAST ERROR")
    rows = [
        (
            vectorizer["id"],
            vectorizer["source_table"],
            _health(vectorizer["health"]),
            vectorizer["success_count"],
            vectorizer["error_count"],
            f"{age(instant_of(vectorizer['updated_at']), now)} ago" if vectorizer["updated_at"] else "never",
            vectorizer["last_error_message"],
        )
        for vectorizer in document["vectorizers"]
    ]
    lines = columns(call, heads, rows)
    if call.colour:
        for n, vectorizer in enumerate(document["vectorizers"], 1):
            drawn = _health(vectorizer["health"])
            lines[n] = lines[n].replace(drawn, paint(drawn, _colour(vectorizer["health"])), 1)
    return lines


def _health(share: float | None) -> str:
    if share is None:
        return "-"
    # Rounded down, so that 100% means that nothing failed.
    percent = f"{int(share * 100)}%"
    plain = not sys.stdout.encoding.lower().startswith("utf")
    return f"{bar(share, '#', '.') if plain else bar(share)} {percent}"


def _colour(share: float | None) -> str:
    return "32" if share is None or share >= _GOOD else "33" if share >= _FAIR else "31"
