"""How coroutines reach the store: a glance at once, everything else in a thread."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from rota.api import store_pool
from rota.api.store_pool import StorePool
from rota.settings import Settings
from tests.support.stores import make_store, path_of
from tests.support.work import add_many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rota.store.store import Store

JOBS = 3000


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[StorePool]:
    with make_store("sqlite", tmp_path) as store:
        add_many(store, JOBS)
        found = StorePool(path_of(store), Settings(), 1, "test")
        yield found
        found.close()


def one(store: Store) -> int:
    with store.database.read():
        return store.jobs.get(1).id


def all_jobs(store: Store) -> int:
    """No queue has this name, so that every job is looked at."""
    with store.database.read():
        return len(store.jobs.list(queue="nowhere"))


def test_a_glance_is_taken_at_once_and_what_takes_long_in_a_thread(
    asked: StorePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noted(look: Callable[[Store], int]) -> Callable[[Store], int]:
        def noting(store: Store) -> int:
            threads.append(threading.current_thread().name)
            return look(store)

        return noting

    async def ask() -> None:
        monkeypatch.setattr(store_pool, "INLINE_WITHIN", 60.0)
        assert await asked.ask_inline(noted(one)) == 1
        assert await asked.ask_inline(noted(all_jobs)) == 0
        monkeypatch.setattr(store_pool, "INLINE_WITHIN", 0.0)
        assert await asked.ask_inline(noted(all_jobs)) == 0

    asyncio.run(ask())
    here = threading.current_thread().name
    assert threads == [here, here, here, "rota-test_0"]


def test_a_glance_that_is_given_up_leaves_nothing_behind(asked: StorePool, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite counts the steps of a statement over all its runs: one in hundreds of the shortest is given up too."""
    monkeypatch.setattr(store_pool, "INLINE_WITHIN", 0.0)

    async def ask() -> set[int]:
        return {await asked.ask_inline(one) for _ in range(1000)}

    assert asyncio.run(ask()) == {1}
