"""Jobs that come one by one, many at once: they are made durable together, and each is answered by itself."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from rota.api.app import create
from rota.api.credentials import local_token
from rota.api.store_pool import EnqueueBatcher, StorePool
from rota.core.errors import Denied, NotFound, StoreError
from rota.core.event import JobMoved
from rota.core.job import NewJob
from rota.settings import Settings
from tests.support.stores import make_store, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rota.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with make_store("sqlite", tmp_path) as opened:
        yield opened


@pytest.fixture
def writers(store: Store) -> Iterator[StorePool]:
    found = StorePool(path_of(store), Settings(), 1, "test")
    yield found
    found.close()


def add(writers: StorePool, *wanted: tuple[NewJob, str]) -> Sequence[int | BaseException]:
    """Add all at once; what each is answered."""

    async def all_at_once() -> Sequence[int | BaseException]:
        batcher = EnqueueBatcher(writers)
        return await asyncio.gather(*(batcher.add(new, actor) for new, actor in wanted), return_exceptions=True)

    return asyncio.run(all_at_once())


def told(store: Store) -> list[tuple[str, list[int]]]:
    """Who added which jobs, by transaction."""
    events = store.events.after("0")
    return [(event.actor, [id for move in event.of(JobMoved, "add") for id in move.ids]) for event in events]


def test_those_that_wait_for_the_writer_become_durable_together(store: Store, writers: StorePool) -> None:
    ids = add(writers, *((NewJob(f"job {n}"), "ann") for n in range(30)))
    assert [store.jobs.get(id).title for id in ids if isinstance(id, int)] == [f"job {n}" for n in range(30)]
    assert told(store) == [("ann", ids)]


def test_a_mistake_is_told_to_nobody_else(store: Store, writers: StorePool) -> None:
    first, wrong, last = add(writers, (NewJob("a"), "ann"), (NewJob("b", after=[999]), "ann"), (NewJob("c"), "ann"))
    assert isinstance(wrong, NotFound) and "999" in str(wrong)
    assert isinstance(first, int) and isinstance(last, int)
    assert [store.jobs.get(id).title for id in (first, last)] == ["a", "c"]
    assert len(store.jobs.list()) == 2


def test_the_log_names_who_added_each(store: Store, writers: StorePool) -> None:
    ids = add(writers, *((NewJob("a"), actor) for actor in ("ann", "ann", "ben", "ann")))
    assert told(store) == [("ann", ids[:2]), ("ben", ids[2:3]), ("ann", ids[3:])]


def test_one_key_many_times_at_once_is_one_job(store: Store, writers: StorePool) -> None:
    assert set(add(writers, *((NewJob("a", key="k"), "ann") for _ in range(20)))) == {1}
    assert len(store.jobs.list()) == 1


def test_a_job_that_waits_for_the_writer_is_not_added_once_its_token_is_revoked(
    store: Store, writers: StorePool
) -> None:
    """Nor does one that has its name by then lend it its rights."""
    (revoked, _), answers = store.tokens.create("ann", ["enqueue"]), []
    store.tokens.revoke(revoked.id)
    living, _ = store.tokens.create("ann", ["enqueue"])

    async def all_at_once() -> None:
        batcher = EnqueueBatcher(writers)
        wanted = [batcher.add(NewJob("a"), "ann@http", token) for token in (living, revoked, living, revoked)]
        answers.extend(await asyncio.gather(*wanted, return_exceptions=True))

    asyncio.run(all_at_once())
    assert [isinstance(each, Denied) for each in answers] == [False, True, False, True]
    assert len(store.jobs.list()) == 2


def test_a_request_that_waits_for_the_lock_adds_nothing_once_its_token_is_revoked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, secret = store.tokens.create("ann", ["enqueue"])
    api, arrived, add_one = create(path_of(store), Settings()), asyncio.Event(), EnqueueBatcher.add

    async def noting(batcher: EnqueueBatcher, *wanted: Any) -> int:
        arrived.set()
        return await add_one(batcher, *wanted)

    monkeypatch.setattr(EnqueueBatcher, "add", noting)

    async def post() -> httpx.Response:
        head = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://localhost") as client:
            with store.database.write():
                posted = asyncio.create_task(client.post("/api/v1/jobs", json={"title": "a"}, headers=head))
                await arrived.wait()
                store.database.execute("token.revoke", {"id": token.id, "now": 1})
            answer = await posted
        await api.close()
        return answer

    answer = asyncio.run(asyncio.wait_for(post(), 60))
    assert (answer.status_code, store.jobs.list()) == (403, []), answer.text


def test_everyone_hears_of_a_store_that_fails_and_it_is_tried_again_afterwards(
    store: Store, writers: StorePool
) -> None:
    path = path_of(store)
    os.rename(path, f"{path}.away")
    assert all(isinstance(each, StoreError) for each in add(writers, *((NewJob("a"), "ann") for _ in range(3))))
    os.rename(f"{path}.away", path)
    assert add(writers, (NewJob("a"), "ann")) == [1]


def test_the_api_of_a_file_adds_together_what_comes_while_it_waits_for_the_lock(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, secret = local_token(store)
    api, arrived, add_one = create(path_of(store), Settings()), [], EnqueueBatcher.add

    async def noting(batcher: EnqueueBatcher, *wanted: Any) -> int:
        arrived.append(wanted)
        return await add_one(batcher, *wanted)

    monkeypatch.setattr(EnqueueBatcher, "add", noting)

    async def post_all() -> list[int]:
        transport = httpx.ASGITransport(api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def post(n: int) -> int:
                head = {"Authorization": f"Bearer {secret}"}
                answer = await client.post("/api/v1/jobs", json={"title": f"job {n}"}, headers=head)
                return int(answer.raise_for_status().json()["id"])

            with store.database.write():
                posts = [asyncio.create_task(post(n)) for n in range(20)]
                while len(arrived) < 20:
                    await asyncio.sleep(0)
            ids = await asyncio.gather(*posts)
        await api.close()
        return ids

    ids = asyncio.run(asyncio.wait_for(post_all(), 60))
    assert [store.jobs.get(id).title for id in ids] == [f"job {n}" for n in range(20)]
    added = [some for actor, some in told(store) if some and actor == f"{token.name}@http"]
    assert [id for some in added for id in some] == ids and len(added) <= 2, (
        "what the writer had begun with, and all the rest"
    )
