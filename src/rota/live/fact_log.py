"""The event log as documents, one per fact: the newest facts, or those after a cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from rota.core.event import (
    JobChanged,
    JobMoved,
    OrchestratorChanged,
    OtherChanged,
    QueueChanged,
    ScheduleChanged,
    SlotChanged,
    SourceChanged,
    StoreChanged,
    TokenChanged,
    UnknownFact,
    WorkerChanged,
)
from rota.core.queue import ALL
from rota.core.record import Record
from rota.core.times import MILLISECOND, format_instant
from rota.core.topic import topics_of, wanting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.event import Event, Fact
    from rota.documents import Document
    from rota.store.store import Store

_PAGE = 100


class LoggedFact(Record):
    """A fact with its event, and the topic under which it was asked for."""

    event: Event
    fact: Fact
    topic: str


def after(
    store: Store, patterns: Sequence[str], cursor: str, limit: int | None, most: int | None = None
) -> tuple[list[LoggedFact], str | None]:
    """Return the facts after a cursor, oldest first.

    After `most` facts were searched, returns the cursor after which to continue as well, else None.
    """
    facts: list[LoggedFact] = []
    searched, wants = 0, wanting(patterns)
    while (limit is None or len(facts) < limit) and (page := store.events.after(cursor, _PAGE)):
        if most is not None and searched >= most:
            return facts, cursor
        page = page if most is None else _limited(page, most - searched)
        facts += _matching(page, wants)
        cursor, searched = page[-1].cursor, searched + _size(page)
    return facts[:limit], None


def newest(
    store: Store, patterns: Sequence[str], limit: int, before: str | None = None, most: int | None = None
) -> tuple[list[LoggedFact], str | None]:
    """Return the last facts, or the last before a cursor, oldest first.

    After `most` facts were searched, returns the cursor before which to continue as well, else None.
    """
    facts: list[LoggedFact] = []
    searched, wants = 0, wanting(patterns)
    while len(facts) < limit and (page := store.events.newest(before, _PAGE)):
        if most is not None and searched >= most:
            return facts, before
        page = page if most is None else _limited(page[::-1], most - searched)[::-1]
        facts = _matching(page, wants) + facts
        before, searched = page[0].cursor, searched + _size(page)
    return facts[-limit:], None


def documents(facts: Iterable[LoggedFact]) -> list[Document]:
    """Return a document per fact, or one per job of a fact about several."""
    return [document for logged in facts for document in _documents(logged)]


def _documents(logged: LoggedFact) -> list[Document]:
    event = logged.event
    name, bodies = _bodies(logged.fact)
    head = {
        "id": event.cursor,
        "topic": logged.topic,
        "type": f"{name}_update",
        "timestamp": event.at // MILLISECOND,
        "at": format_instant(event.at),
        "actor": event.actor,
    }
    return [{**head, name: body} for body in bodies]


def _bodies(fact: Fact) -> tuple[str, list[Document]]:
    """Return the field of a fact's documents that says what changed, and its values."""
    match fact:
        case JobMoved(verb, queue, old, new, ids, details):
            move = {"queue": queue, "verb": verb, "was": old, "status": new, **details}
            return "job", [{"id": id, **move} for id in ids]
        case JobChanged(verb, details=details):
            return "job", [{"id": fact.id, "verb": verb, **details}]
        case QueueChanged(verb, queue, details):
            return "queue", [{"queue_type": None if queue == ALL else queue, "verb": verb, **details}]
        case WorkerChanged() | SourceChanged() | ScheduleChanged():
            return fact.noun, [{"id": fact.subject, "verb": fact.verb, **fact.details}]
        case SlotChanged() | OrchestratorChanged() | TokenChanged() | StoreChanged() | OtherChanged():
            return "health", [{"id": fact.subject, "verb": fact.verb, **fact.details}]
        case UnknownFact(stored):
            return "health", [{"unknown": stored}]
        case other:
            assert_never(other)


def _matching(events: Iterable[Event], wants: Callable[[str], bool]) -> list[LoggedFact]:
    """Return the facts that are wanted by a topic of theirs, each with the narrowest such topic."""
    topics = ((event, fact, next(filter(wants, topics_of(fact)), None)) for event in events for fact in event.facts)
    return [LoggedFact(event, fact, topic) for event, fact, topic in topics if topic is not None]


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
