"""`top`: what happens now, live on the whole terminal; where there is none, once, as text or JSON."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rota import documents
from rota.cli.output import columns
from rota.cli.verb import Option, verb
from rota.core.errors import BadInput, RotaError
from rota.core.throughput import Pace
from rota.core.times import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.cli.invocation import Call
    from rota.live.attention import Notice
    from rota.store.events import Event
    from rota.store.store import Store
    from rota.top.layout import Column
    from rota.top.look import Look
    from rota.top.rows import Row

NEEDED = "rota top needs the package textual to draw: install it with `python -m pip install textual`"


@verb(
    "top",
    "watch it live on the whole terminal: queues, slots, jobs, deaths; ? shows the keys",
    "rota top --url http://host:8356",
    options=(Option("--url", "through an HTTP API, with the token in ROTA_TOKEN; the same as --db URL", "URL"),),
)
def top(call: Call) -> int:
    """Show it until somebody leaves; or once, where nobody could."""
    opening = _opening(call)
    with opening() as store:  # what is wrong with the database is told here, not on the screen
        if call.json or not _can_draw(call):
            return _once(call, store)
    return _drawing()(opening)


def _can_draw(call: Call) -> bool:
    return call.on_terminal and sys.stdin.isatty() and os.environ.get("TERM") != "dumb"


def _drawing() -> Callable[[Callable[[], Store]], int]:
    """What draws; the one place that needs textual."""
    try:
        from rota.top.app import run
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] in ("rich", "textual"):
            raise RotaError(NEEDED) from problem
        raise
    return run


def _opening(call: Call) -> Callable[[], Store]:
    """What opens the store, on whichever thread calls it; nothing is said aside, into the screen."""
    from rota.store.open import open_store

    settings, url = call.settings(), call["url"]
    if url is not None and not url.startswith(("http://", "https://")):
        raise BadInput(f"{url!r} is not the URL of an HTTP API: write for example http://host:8356")
    return lambda: open_store(url or settings.db, settings)


def _once(call: Call, store: Store) -> int:
    from rota.top.look import lately, look

    found = look(store)
    if call.json:
        call.document(_document(found))
    else:
        call.lines(_text(call, found, lately(store)))
    return 0


def _document(found: Look) -> documents.Document:
    return {
        "at": format_instant(found.now),
        "health": found.health,
        "attention": [_notice(each) for each in found.notices],
        "queues": [documents.queue(each) for each in found.queues],
        "slots": [
            documents.slot(each, found.now, found.hosts, found.restarts)
            for each in found.slots
            if each.wanted or each.worker
        ],
        "jobs": [documents.job(each) for each in found.held],
        "deaths": [documents.death(*each) for each in found.deaths],
    }


def _notice(notice: Notice) -> documents.Document:
    since = None if notice.since is None else format_instant(notice.since)
    return {"noun": notice.noun, "which": notice.which, "text": notice.text, "since": since}


def _text(call: Call, found: Look, news: Iterable[Event]) -> list[str]:
    from rota.top import rows

    now, pace = found.now, Pace()
    for event in news:
        pace.note(event.at, event.facts)
    sections: tuple[tuple[str, tuple[Column, ...], Iterable[Row]], ...] = (
        ("needs attention", rows.ATTENTION, rows.attention_rows(found, now)),
        ("queues", rows.QUEUES, rows.queue_rows(found, pace, now)),
        ("slots", rows.SLOTS, rows.slot_rows(found, now)),
        ("jobs in hand", rows.HELD, rows.held_rows(found, now)),
        ("deaths", rows.DEATHS, rows.death_rows(found, now)),
    )
    count = len(found.workers)
    lines = [f"{found.health}, {count} worker{'s' * (count != 1)}"]
    for title, shown, each in sections:
        cells = [[text for text, _ in row.cells] for row in each]
        if cells:
            lines += ["", f"{title}:", *columns(call, [column.head for column in shown], cells)]
    return lines
