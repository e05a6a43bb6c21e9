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


def after(
    store: Store, patterns: Sequence[str], cursor: str, limit: int | None, most: int | None = None
) -> tuple[list[Told], str | None]:
    """The facts after a cursor, oldest first; and the cursor to look on after, where `most` events were looked at."""
    found: list[Told] = []
    looked = 0
    while (limit is None or len(found) < limit) and (page := store.events.after(cursor, _WINDOW)):
        if most is not None and looked >= most:
            return found, cursor
        found += _wanted(page, patterns)
        cursor, looked = page[-1].cursor, looked + len(page)
    return found[:limit], None


def newest(
    store: Store, patterns: Sequence[str], limit: int, before: str | None = None, most: int | None = None
) -> tuple[list[Told], str | None]:
    """The last facts, or the last before a cursor; and the cursor to look on before, where `most` were looked at."""
    found: list[Told] = []
    looked = 0
    while len(found) < limit and (page := store.events.newest(before, _WINDOW)):
        if most is not None and looked >= most:
            return found, before
        found = _wanted(page, patterns) + found
        before, looked = page[0].cursor, looked + len(page)
    return found[-limit:], None


def documents(found: Iterable[Told]) -> list[Document]:
    """One document per fact, or one for each job that it speaks of."""
    return [document for told in found for document in wire.event(*told)]


def _wanted(found: Iterable[Event], patterns: Sequence[str]) -> list[Told]:
    return [(event, fact, topic) for event in found for fact, topic in wire.told(event, patterns)]
