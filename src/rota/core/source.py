"""Sources: how an application declares one, the internal job that fills its queue, and keys that come again."""

from __future__ import annotations

from rota.core.errors import BadInput
from rota.core.ids import queue_name
from rota.core.record import Record
from rota.core.times import DAY, HOUR, MINUTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.core.times import Duration, Instant

# No queue of a user begins with `~`: the internal jobs that make passes are out of every list and limit (decision 16).
INTERNAL = "~"
KIND = "rota:"
FILLER = "rota:source:"
LONGEST_KEY = 1000
MOST_DECLARED = 1000
LARGEST_NUMBER = 1_000_000
LARGEST_ID = 2**31 - 1
LONGEST_EVERY: Duration = 365 * DAY
SHORTEST_EVERY: Duration = 100_000
FIRST_PAUSE: Duration = MINUTE
LONGEST_PAUSE: Duration = 6 * HOUR
MEMORY = 100_000
MEMORY_TIME: Duration = DAY


class Declared(Record):
    """A source as its application declares it.

    A key that comes again after more than `repeats` successes is held back; None is no limit.
    """

    name: str
    queue: str
    task: str
    every: Duration
    low: int
    batch: int
    repeats: int | None


class Source(Record):
    """A source as the store has it: its declaration, its filler job, and what its passes and jobs have counted."""

    name: str
    queue: str
    task: str
    every: Duration
    low: int
    batch: int
    repeats: int | None
    filler: int
    more: int
    fill_count: int
    added_count: int
    last_fill_at: Instant | None
    last_fill_error: str | None
    success_count: int
    error_count: int
    last_success_at: Instant | None
    last_success_worker: str | None
    last_error_at: Instant | None
    last_error_message: str | None
    last_error_worker: str | None
    repeated_count: int
    last_repeated_key: str | None

    @property
    def declared(self) -> Declared:
        return Declared(self.name, self.queue, self.task, self.every, self.low, self.batch, self.repeats)


def checked(source: Declared) -> Declared:
    """Return a declared source unchanged.

    Raises:
        BadInput: One of its fields is not valid.
    """
    try:
        queue_name(source.name)
    except BadInput:
        raise BadInput(f"{source.name!r} is not a name for a source: letters, digits, '_', '-' and '.'") from None
    queue_name(source.queue)
    if not source.task:
        raise BadInput(f"source {source.name} needs task=, the task that runs its jobs")
    if not SHORTEST_EVERY <= source.every <= LONGEST_EVERY:
        raise BadInput(f"source {source.name}: every must be between 100ms and 365 days, such as 30s")
    for name, number in (("low", source.low), ("batch", source.batch)):
        if not 1 <= number <= LARGEST_NUMBER:
            raise BadInput(f"source {source.name}: {name} must be from 1 to {LARGEST_NUMBER:,}, not {number}")
    if source.repeats is not None and source.repeats < 0:
        raise BadInput(f"source {source.name}: repeats must be 0 or more, or None for no limit, not {source.repeats}")
    return source


def from_hello(body: dict[str, Any]) -> list[Declared]:
    """Return the sources that a HELLO frame declares.

    Any program may be on the pipe, so sources that are not valid are left out.
    """
    documents = body.get("sources")
    sources = []
    for document in documents[:MOST_DECLARED] if isinstance(documents, list) else ():
        if isinstance(document, dict) and _fits(document):
            try:
                sources.append(checked(Declared(*(document[name] for name in Declared._fields))))
            except BadInput:
                continue
    return sources


def vectorizers(body: dict[str, Any]) -> dict[str, int | str]:
    """Return the vectorizer of each source that a HELLO frame names: its id, or the table that it reads."""
    document = body.get("vectorizers")
    items = document.items() if isinstance(document, dict) and len(document) <= MOST_DECLARED else ()
    return {name: vectorizer for name, vectorizer in items if is_vectorizer(vectorizer)}


def is_vectorizer(value: object) -> bool:
    """Return whether a value names a vectorizer: by its id, or by the table that it reads."""
    if isinstance(value, str):
        return 0 < len(value) <= LONGEST_KEY and "\0" not in value
    return type(value) is int and 0 <= value <= LARGEST_ID


def _fits(document: dict[str, Any]) -> bool:
    texts = all(isinstance(document.get(name), str) for name in ("name", "queue", "task"))
    numbers = all(type(document.get(name)) is int for name in ("every", "low", "batch"))
    return texts and numbers and "repeats" in document and type(document["repeats"]) in (int, type(None))


def internal_queue(queue: str) -> str:
    """Return the queue of the internal jobs that fill a queue; no user's queue can have such a name."""
    return INTERNAL + queue


def is_internal(queue: str) -> bool:
    return queue.startswith(INTERNAL)


def filler_kind(name: str) -> str:
    """Return the kind of the internal job that makes the passes over a source."""
    return FILLER + name


def held_until(successes: int, last_at: Instant, repeats: int | None) -> Instant | None:
    """Return until when a key that succeeded so often is held back, or None. The pause doubles with each success."""
    if repeats is None or successes <= repeats:
        return None
    doublings = min(successes - repeats - 1, 30)
    return last_at + min(FIRST_PAUSE << doublings, LONGEST_PAUSE)


def key_hash(key: str) -> int:
    """Return a 64-bit hash of a key, under which the store remembers it."""
    from hashlib import blake2b

    return int.from_bytes(blake2b(key.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True)
