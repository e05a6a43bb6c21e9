"""Slots are made and given up in time that is proportional to their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.process.host import host_id
from tests.support.steps import steps

if TYPE_CHECKING:
    from rota.store.store import Store


def test_twenty_times_as_many_slots_take_about_twenty_times_the_steps(store: Store) -> None:
    few = steps(lambda: store.slots.take("few", host_id(), {"a": 50}))
    many = steps(lambda: store.slots.take("many", host_id(), {"b": 1000}))
    assert many < 30 * few
    assert len(store.slots.of_crew("many", host_id())) == 1000


def test_queues_without_slots_cost_a_crew_next_to_nothing(store: Store) -> None:
    store.slots.take("main", host_id(), {"a": 3})
    none = {f"q{n}": 0 for n in range(1000)}
    assert steps(lambda: store.slots.take("main", host_id(), {"a": 3, **none})) < 10_000


def test_new_slots_fill_the_gaps_that_others_left(store: Store) -> None:
    store.slots.take("main", host_id(), {"a": 4})
    for n in (0, 2):
        store.slots.reset(f"worker:a:{n}", forget=True)
    assert [slot.n for slot in store.slots.take("other", host_id(), {"a": 3})] == [0, 2, 4]
    store.slots.scale("main", host_id(), "a", 1)
    assert [slot.n for slot in store.slots.of_crew("main", host_id()) if slot.wanted] == [1]
    store.slots.scale("main", host_id(), "a", 3)
    assert [slot.n for slot in store.slots.of_crew("main", host_id()) if slot.wanted] == [1, 3, 5]
