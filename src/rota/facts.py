"""The log of facts as documents: the newest, or those after a cursor."""

from __future__ import annotations

from rota import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.store.events import Event
    from rota.store.store import Store
    from rota.wire import Document, Fact

    Told = tuple[Event, Fact, str]

_WINDOW = 500


def after(store: Store, patterns: Sequence[str], cursor: str, limit: int | None) -> list[Told]:
    """The facts after a cursor, oldest first."""
    found: list[Told] = []
    while (limit is None or len(found) < limit) and (page := store.events.after(cursor, _WINDOW)):
        found += _wanted(page, patterns)
        cursor = page[-1].cursor
    return found[:limit]


def newest(store: Store, patterns: Sequence[str], limit: int) -> list[Told]:
    """The last facts, looked for from the end a window at a time."""
    found: list[Told] = []
    page = store.events.newest(limit=_WINDOW)
    while page and len(found) < limit:
        found = _wanted(page, patterns) + found
        page = store.events.newest(page[0].cursor, _WINDOW)
    return found[-limit:]


def documents(found: Iterable[Told]) -> list[Document]:
    """One document per fact, or one for each job that it speaks of."""
    return [document for told in found for document in wire.event(*told)]


def _wanted(found: Iterable[Event], patterns: Sequence[str]) -> list[Told]:
    return [(event, fact, topic) for event in found for fact, topic in wire.told(event, patterns)]
