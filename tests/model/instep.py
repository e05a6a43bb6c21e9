"""Two stores driven in step: every call goes to both, and both must answer and tell the same."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, cast

from rota.core.errors import RotaError
from rota.core.event import to_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.event import Fact
    from rota.store.store import Store

PAGE = 50  # events at a time, so that cursors within a page are gone on from too
PORTS = ("jobs", "claims", "workers", "queues", "orchestrators", "slots", "history", "sources")


class InStep:
    """Looks like a store. What has no twin, cursors and connections, is the first one's."""

    def __init__(self, first: Store, second: Store) -> None:
        self._stores = (first, second)
        self.database, self.settings, self.events = first.database, first.settings, first.events

    def __getattr__(self, name: str) -> Any:
        if name in PORTS:
            return _Port(self, name)
        assert name in ("reconcile", "tick"), f"{name} is not known to answer the same"
        return lambda *args, **kwargs: self.call(name, lambda store: getattr(store, name)(*args, **kwargs))

    def call(self, what: str, make: Any) -> Any:
        answers = [_answer(make, store) for store in self._stores]
        first, second = answers
        assert _comparable(first) == _comparable(second), f"{what}: {first!r}, and the other {second!r}"
        if isinstance(first, RotaError):
            raise first
        return first

    def close(self) -> None:
        for store in self._stores:
            store.close()


class _Port:
    def __init__(self, both: InStep, name: str) -> None:
        self._both = both
        self._name = name

    def __getattr__(self, verb: str) -> Any:
        name = f"{self._name}.{verb}"
        return lambda *args, **kwargs: self._both.call(
            name, lambda store: getattr(getattr(store, self._name), verb)(*args, **kwargs)
        )


def in_step(first: Store, second: Store) -> Store:
    return cast("Store", InStep(first, second))


def compare_logs(first: Store, second: Store) -> None:
    """A log only grows, so one look at the end of a program is as good as one behind every call."""
    for number, (one, other) in enumerate(zip_longest(_told(first), _told(second))):
        assert one == other, f"event {number} tells {one}, and the other's {other}"


def _answer(make: Any, store: Store) -> Any:
    try:
        return make(store)
    except RotaError as problem:
        return problem


def _told(store: Store) -> Iterator[tuple[int, str, Any]]:
    cursor = "0"
    while found := store.events.after(cursor, PAGE):
        yield from ((event.at, event.actor, sorted(map(_in_order, event.facts))) for event in found)
        cursor = found[-1].cursor


def _in_order(fact: Fact) -> str:
    """A fact as text; of things that fall due at one instant no order is promised."""
    return repr([sorted(part) if isinstance(part, list) else part for part in to_stored(fact)])


def _comparable(answer: Any) -> Any:
    return (type(answer), str(answer)) if isinstance(answer, RotaError) else answer
