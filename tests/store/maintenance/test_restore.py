"""After a restore no number is given out that the lost time may have given out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.event import StoreChanged
from rota.core.times import HOUR, SECOND
from rota.store.maintenance.restore import FASTEST, LEAST, raise_numbers
from tests.support.work import add, claim

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def test_at_least_a_million_ids_and_tokens_are_left_out_and_the_log_says_who_asked(store: Store) -> None:
    job = add(store)
    token = claim(store, job).token
    assert raise_numbers(store) == LEAST
    later = add(store)
    assert later > job + LEAST and claim(store, later).token > token + LEAST
    told = [fact for event in store.events.after("0") for fact in event.of(StoreChanged)]
    assert told == [StoreChanged("restore", "numbers", {"left_out": LEAST, "by": store.actor})]


def test_the_older_the_backup_the_more_is_left_out(store: Store, clock: FakeClock) -> None:
    job = add(store)
    clock.advance(24 * HOUR)
    assert raise_numbers(store) >= FASTEST * 24 * HOUR // SECOND
    assert add(store) > job + FASTEST * 24 * HOUR // SECOND
