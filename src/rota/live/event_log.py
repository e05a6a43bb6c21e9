"""The event log as documents, one per fact: the newest facts, or those after a cursor."""

from __future__ import annotations

from rota import documents as nouns
from rota.core.topic import wanting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.documents import Document, Fact
    from rota.store.events import Event
    from rota.store.store import Store

    LoggedFact = tuple[Event, Fact, str]  # with the topic that matched

_PAGE = 100


def after(
    store: Store, patterns: Sequence[str], cursor: str, limit: int | None, most: int | None = None
) -> tuple[list[LoggedFact], str | None]:
    """Return the facts after a cursor, oldest first.

    After `most` facts were searched, returns the cursor after which to continue as well, else None.
    """
    facts: list[LoggedFact] = []
    searched, matches = 0, wanting(patterns)
    while (limit is None or len(facts) < limit) and (page := store.events.after(cursor, _PAGE)):
        if most is not None and searched >= most:
            return facts, cursor
        page = page if most is None else _limited(page, most - searched)
        facts += _matching(page, matches)
        cursor, searched = page[-1].cursor, searched + _size(page)
    return facts[:limit], None


def newest(
    store: Store, patterns: Sequence[str], limit: int, before: str | None = None, most: int | None = None
) -> tuple[list[LoggedFact], str | None]:
    """Return the last facts, or the last before a cursor, oldest first.

    After `most` facts were searched, returns the cursor before which to continue as well, else None.
    """
    facts: list[LoggedFact] = []
    searched, matches = 0, wanting(patterns)
    while len(facts) < limit and (page := store.events.newest(before, _PAGE)):
        if most is not None and searched >= most:
            return facts, before
        page = page if most is None else _limited(page[::-1], most - searched)[::-1]
        facts = _matching(page, matches) + facts
        before, searched = page[0].cursor, searched + _size(page)
    return facts[-limit:], None


def documents(facts: Iterable[LoggedFact]) -> list[Document]:
    """Return a document per fact, or one per job of a fact about several."""
    return [document for fact in facts for document in nouns.event(*fact)]


def _matching(events: Iterable[Event], matches: Callable[[str], bool]) -> list[LoggedFact]:
    return [(event, fact, topic) for event in events for fact, topic in nouns.told(event, matches)]


def _limited(page: list[Event], most: int) -> list[Event]:
    """Return the first events that have `most` facts together, at least one event: it may have thousands of facts."""
    size = 0
    for count, event in enumerate(page, 1):
        size += _size([event])
        if size >= most:
            return page[:count]
    return page


def _size(page: Iterable[Event]) -> int:
    return sum(max(1, len(event.facts)) for event in page)
