"""The log of facts as documents: the newest, or those after a cursor."""

from __future__ import annotations

from rota import documents as nouns
from rota.core.topic import wanting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.documents import Document, Fact
    from rota.store.events import Event
    from rota.store.store import Store

    Told = tuple[Event, Fact, str]

_WINDOW = 100


def after(
    store: Store, patterns: Sequence[str], cursor: str, limit: int | None, most: int | None = None
) -> tuple[list[Told], str | None]:
    """The facts after a cursor, oldest first; and the cursor to look on after, where `most` facts were looked at."""
    found: list[Told] = []
    looked, wants = 0, wanting(patterns)
    while (limit is None or len(found) < limit) and (page := store.events.after(cursor, _WINDOW)):
        if most is not None and looked >= most:
            return found, cursor
        page = page if most is None else _up_to(page, most - looked)
        found += _wanted(page, wants)
        cursor, looked = page[-1].cursor, looked + _size(page)
    return found[:limit], None


def newest(
    store: Store, patterns: Sequence[str], limit: int, before: str | None = None, most: int | None = None
) -> tuple[list[Told], str | None]:
    """The last facts, or those before a cursor; and the cursor to look on before, where `most` facts were looked at."""
    found: list[Told] = []
    looked, wants = 0, wanting(patterns)
    while len(found) < limit and (page := store.events.newest(before, _WINDOW)):
        if most is not None and looked >= most:
            return found, before
        page = page if most is None else _up_to(page[::-1], most - looked)[::-1]
        found = _wanted(page, wants) + found
        before, looked = page[0].cursor, looked + _size(page)
    return found[-limit:], None


def documents(found: Iterable[Told]) -> list[Document]:
    """One document per fact, or one for each job that it speaks of."""
    return [document for told in found for document in nouns.event(*told)]


def _wanted(found: Iterable[Event], wants: Callable[[str], bool]) -> list[Told]:
    return [(event, fact, topic) for event in found for fact, topic in nouns.told(event, wants)]


def _up_to(page: list[Event], most: int) -> list[Event]:
    """As many of these events as have so many facts, at least one: a single event may tell of thousands of jobs."""
    size = 0
    for count, event in enumerate(page, 1):
        size += _size([event])
        if size >= most:
            return page[:count]
    return page


def _size(page: Iterable[Event]) -> int:
    return sum(max(1, len(event.facts)) for event in page)
