"""Commits that come too late are counted, and counting them changes nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done, Failed
from rota.core.errors import Stale
from rota.store.metrics import STALE
from tests.store.claims.test_manual import each_write
from tests.support.work import Crew, add, claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Claim
    from rota.store.store import Store


def refused(store: Store) -> int:
    return sum(metric.n for metric in store.metrics.counted() if metric.name == STALE)


@each_write
def test_each_write_with_a_token_that_is_lost_counts_once(
    store: Store, write: Callable[[Store, Claim], object]
) -> None:
    held = claim(store, add(store))
    for times in (1, 2):
        with pytest.raises(Stale):
            write(store, held.replace(token=held.token + 1))
        assert refused(store) == times


def test_settling_without_the_token_of_a_watched_worker_counts(store: Store) -> None:
    job = add(store)
    Crew(store).exchange()
    with pytest.raises(Stale):
        store.jobs.done(job)
    assert refused(store) == 1


def test_each_outcome_that_an_exchange_refuses_counts_and_none_that_it_takes(store: Store) -> None:
    held, other, crew = claim(store, add(store)), add(store), Crew(store)
    (taken,) = crew.exchange().claims
    late = [(held.job_id, held.token + 5, Done()), (held.job_id, held.token + 6, Failed("x"))]
    answer = crew.exchange([*late, (other, taken.token, Done())], room=0)
    assert len(answer.refused) == refused(store) == 2


def test_a_count_that_the_store_does_not_take_is_left_out(store: Store) -> None:
    held, crew = claim(store, add(store)), Crew(store)
    with store.database.write():
        store.database.script("ALTER TABLE metric RENAME TO elsewhere")
    with pytest.raises(Stale, match="is not held"):
        store.claims.settle(held.replace(token=held.token + 1), Done())
    assert crew.exchange([(held.job_id, held.token + 1, Done())], room=0).refused == [held.token + 1]
    with store.database.write():
        store.database.script("ALTER TABLE elsewhere RENAME TO metric")
    store.claims.settle(held, Done())
