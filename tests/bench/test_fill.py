"""A store that is filled by plain SQL is as true as one that was filled job by job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks._fill import KEYS, LIMITED, fill, prepare
from rota.core.claim import Done
from tests.support.stores import STORES, store_at, url_of
from tests.support.work import register

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store

EACH = 300


@pytest.fixture(params=STORES)
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = url_of(request.param, tmp_path)
    with store_at(url) as store:
        prepare(store)
        fill(url, 0, EACH, lambda _: None)
        yield store


def counts(store: Store) -> dict[tuple[str, str], int]:
    """The kept counts that are not zero."""
    return {(queue, status): n for queue, each in store.queues.counts().items() for status, n in each.items() if n}


def test_every_kind_is_there_as_often_and_the_kept_counts_are_right(filled: Store) -> None:
    kinds = {("q", "ready"): EACH + 1, ("q", "scheduled"): EACH, ("q", "blocked"): EACH, ("q", "done"): EACH}
    assert counts(filled) == kinds | {(LIMITED, "ready"): KEYS, (LIMITED, "blocked"): EACH}
    true = {(queue, status): n for queue, status, n in filled.database.execute("tally.true", {})}
    assert counts(filled) == true


def test_there_is_nothing_to_mend_and_the_limited_wait_for_their_key(filled: Store) -> None:
    before = counts(filled)
    filled.tick()
    filled.reconcile()
    assert counts(filled) == before
    claim = filled.claims.take(register(filled), LIMITED)
    filled.claims.settle(claim, Done("null"))
    assert counts(filled) == before | {(LIMITED, "blocked"): EACH - 1, (LIMITED, "done"): 1}, "the next of its key"
