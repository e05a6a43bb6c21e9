"""`top`: a live view on the whole terminal; without a terminal, a single snapshot as text or JSON."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rota import documents
from rota.cli.invocation import columns
from rota.cli.verb import Option, verb
from rota.core.errors import BadInput, RotaError
from rota.core.times import format_instant
from rota.live.throughput import Throughput
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.cli.invocation import Call
    from rota.core.event import Event
    from rota.live.attention import Notice
    from rota.store.store import Store
    from rota.top.store_calls import Snapshot
    from rota.top.tables import Column, Row

NEEDED = "rota top needs the package textual to draw: install it with `python -m pip install textual`"


@verb(
    "top",
    "watch it live on the whole terminal: queues, slots, jobs, deaths; ? shows the keys",
    "rota top --url http://host:8356",
    options=(Option("--url", "through an HTTP API, with the token in ROTA_TOKEN; the same as --db URL", "URL"),),
)
def top(call: Call) -> int:
    """Draw until the user quits; without a terminal, print one snapshot."""
    opening = _opening(call)
    # Errors of the database are raised here, before the screen is taken.
    with opening() as store:
        if call.json or not _can_draw(call):
            return _once(call, store)
    return _drawing()(opening)


def _can_draw(call: Call) -> bool:
    return call.on_terminal and sys.stdin.isatty() and os.environ.get("TERM") != "dumb"


def _drawing() -> Callable[[Callable[[], Store]], int]:
    """Import the screen, which alone needs textual."""
    try:
        from rota.top.textual_app import run
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] in ("rich", "textual"):
            raise RotaError(NEEDED) from problem
        raise
    return run


def _opening(call: Call) -> Callable[[], Store]:
    """Return a function that opens the store for the thread that calls it, and prints nothing into the screen."""
    settings, url = call.settings(), call["url"]
    if url is not None and not url.startswith(("http://", "https://")):
        raise BadInput(f"{url!r} is not the URL of an HTTP API: write for example http://host:8356")
    return lambda: open_store(url or settings.db, settings)


def _once(call: Call, store: Store) -> int:
    from rota.top.store_calls import read_snapshot, recent_events

    snapshot = read_snapshot(store)
    if call.json:
        call.document(_document(snapshot))
    else:
        call.lines(_text(call, snapshot, recent_events(store)))
    return 0


def _document(snapshot: Snapshot) -> documents.Document:
    return {
        "at": format_instant(snapshot.now),
        "health": snapshot.health,
        "attention": [_notice(notice) for notice in snapshot.notices],
        "queues": [documents.queue(queue) for queue in snapshot.queues],
        "slots": [
            documents.slot(slot, snapshot.now, snapshot.hosts, snapshot.restarts)
            for slot in snapshot.slots
            if slot.wanted or slot.worker
        ],
        "jobs": [documents.job(job) for job in snapshot.held],
        "deaths": [documents.death(*death) for death in snapshot.deaths],
    }


def _notice(notice: Notice) -> documents.Document:
    since = None if notice.since is None else format_instant(notice.since)
    return {"noun": notice.noun, "which": notice.which, "text": notice.text, "since": since}


def _text(call: Call, snapshot: Snapshot, news: Iterable[Event]) -> list[str]:
    from rota.top import tables

    now, throughput = snapshot.now, Throughput()
    for event in news:
        throughput.note(event)
    sections: tuple[tuple[str, tuple[Column, ...], Iterable[Row]], ...] = (
        ("needs attention", tables.ATTENTION, tables.attention_rows(snapshot, now)),
        ("queues", tables.QUEUES, tables.queue_rows(snapshot, throughput, now)),
        ("slots", tables.SLOTS, tables.slot_rows(snapshot, now)),
        ("jobs in hand", tables.HELD, tables.held_rows(snapshot, now)),
        ("deaths", tables.DEATHS, tables.death_rows(snapshot, now)),
    )
    count = len(snapshot.workers)
    lines = [f"{snapshot.health}, {count} worker{'s' * (count != 1)}"]
    for title, shown, section_rows in sections:
        cells = [[text for text, _ in row.cells] for row in section_rows]
        if cells:
            lines += ["", f"{title}:", *columns(call, [column.head for column in shown], cells)]
    return lines
