"""The source: what a worker declares of one, the internal job that fills its queue, and keys that come again."""

from __future__ import annotations

from rota.core.errors import BadInput
from rota.core.ids import queue_name
from rota.core.record import Record
from rota.core.times import DAY, HOUR, MINUTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.core.times import Duration, Instant

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
    """A source as its application declares it. `repeats` None: a key may come again as often as it likes."""

    name: str
    queue: str
    task: str
    every: Duration
    low: int
    batch: int
    repeats: int | None


class Source(Record):
    """A source as it stands in the store."""

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
    """The same, or what is wrong with it."""
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


def heard(body: dict[str, Any]) -> list[Declared]:
    """The sources that a HELLO frame declares; any program may be on the pipe, so what makes no sense is left out."""
    told = body.get("sources")
    found = []
    for each in told[:MOST_DECLARED] if isinstance(told, list) else ():
        if isinstance(each, dict) and _fits(each):
            try:
                found.append(checked(Declared(*(each[name] for name in Declared._fields))))
            except BadInput:
                continue
    return found


def vectorizers(body: dict[str, Any]) -> dict[str, int | str]:
    """The vectorizers that a HELLO frame names, by source: the id, or the table that it reads."""
    told = body.get("vectorizers")
    found = told.items() if isinstance(told, dict) and len(told) <= MOST_DECLARED else ()
    return {name: each for name, each in found if is_vectorizer(each)}


def is_vectorizer(value: object) -> bool:
    """Whether this can stand for a vectorizer."""
    if isinstance(value, str):
        return 0 < len(value) <= LONGEST_KEY and "\0" not in value
    return type(value) is int and 0 <= value <= LARGEST_ID


def _fits(each: dict[str, Any]) -> bool:
    texts = all(isinstance(each.get(name), str) for name in ("name", "queue", "task"))
    numbers = all(type(each.get(name)) is int for name in ("every", "low", "batch"))
    return texts and numbers and "repeats" in each and type(each["repeats"]) in (int, type(None))


def internal_queue(queue: str) -> str:
    """Where the internal jobs of a queue's sources wait; no queue of a user can have this name."""
    return INTERNAL + queue


def is_internal(queue: str) -> bool:
    return queue.startswith(INTERNAL)


def filler_kind(name: str) -> str:
    """The kind of the internal job that fills a source's queue."""
    return FILLER + name


def held_until(successes: int, last_at: Instant, repeats: int | None) -> Instant | None:
    """Until when a key that succeeded so often is held back; None when it is not. The pause doubles each time."""
    if repeats is None or successes <= repeats:
        return None
    doublings = min(successes - repeats - 1, 30)
    return last_at + min(FIRST_PAUSE << doublings, LONGEST_PAUSE)


def key_hash(key: str) -> int:
    """A number of 64 bits that stands for a key in the memory of keys."""
    from hashlib import blake2b

    return int.from_bytes(blake2b(key.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True)
