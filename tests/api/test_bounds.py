"""What one token may keep the server busy with: each request has an end that does not hang on what others stored."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from rota.api.metrics import ProcessMetrics
from rota.api.store_pool import StorePool
from rota.api.stream import hub as stream_hub
from rota.api.stream.readers import Share
from rota.core.job import NewJob
from rota.live import fact_log
from rota.settings import Settings
from rota.store.workers import slots
from tests.api.servers import Client, Server
from tests.support.eventually import eventually
from tests.support.steps import Steps
from tests.support.stores import make_store
from tests.support.work import add

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from httpx import Response

SMALL = """
from rota.api import app
from rota.api.routes import events
from rota.api.stream import hub, readers
readers.MOST_PATTERNS, readers.MOST_OF_TOKEN, hub.MOST_READ_BACK = 5, 4, 1000
app.MOST_OPEN = 2
events.MOST_SEARCHED = 500
"""
COUNTED = """
from rota.api.request import ApiRequest
reauthenticate = ApiRequest.reauthenticate
async def counted(self):
    print("proved", flush=True)
    await reauthenticate(self)
ApiRequest.reauthenticate = counted
"""
HOME = {"host": "far/1", "hostname": "far", "pid": 7, "version": "1"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """With small bounds."""
    server = Server(tmp_path, change=SMALL)
    yield server
    server.end()


def test_one_token_has_so_many_readers_and_topics_of_the_feed_and_another_has_its_own(server: Server) -> None:
    mine, other = server.client(server.token("mine", "read")), server.client(server.token("other", "read"))
    path = "/api/v1/events?topics="
    with ExitStack() as streams:
        for topics in (("queue:a:jobs", "queue:b:jobs"), ("queue:b:jobs", "queue:c:jobs"), ("queue:*:status",)):
            streams.enter_context(mine.events(*topics))
        refused = mine.refused(429, "GET", f"{path}queue:a:jobs&topics=queue:d:jobs&topics=queue:e:jobs")
        assert "more than 5 different topics" in refused["detail"]
        streams.enter_context(other.events("queue:d:jobs", "queue:e:jobs"))
        streams.enter_context(mine.events("queue:a:jobs"))
        assert "4 readers" in mine.refused(429, "GET", f"{path}queue:a:jobs")["detail"]
    eventually(lambda: "rota_http_event_readers 0.0" in server.client().call("GET", "/metrics").text)
    with mine.events("queue:d:jobs", "queue:e:jobs") as events:
        server.shell.add("A", "--queue", "d")
        assert events.next(topic="queue:d:jobs"), "what was closed is free again"


def test_the_log_is_searched_so_far_at_a_time_with_a_link_to_search_on(server: Server) -> None:
    with server.store() as store:
        (first,) = [add(store, queue="rare")]
        for _ in range(1200):
            add(store, queue="often")
        (last,) = [add(store, queue="rare")]
    client = server.client()
    for start, found in (("", [last, first]), ("&after=0", [first, last])):
        path, seen, pages = f"/api/v1/events/log?topics=queue:rare:jobs{start}", [], 0
        while path:
            answer = client.call("GET", path)
            seen += [document["job"]["id"] for document in answer.json()]
            path, pages = answer.links.get("next", {}).get("url", ""), pages + 1
        assert (seen, pages) == (found, 3)
    assert client.refused(400, "GET", "/api/v1/events/log?after=0&before=0")


def test_the_log_is_searched_by_facts_for_one_event_may_hold_very_many(server: Server) -> None:
    with server.store() as store:
        for _ in range(20):
            store.jobs.add_many([NewJob("A", f"q{n}") for n in range(60)])
    client = server.client()
    path, looks, found = "/api/v1/events/log?topics=queue:nobody:jobs&after=0", 0, []
    while path:
        answer = client.call("GET", path)
        found += answer.json()
        path, looks = answer.links.get("next", {}).get("url", ""), looks + 1
    assert (found, looks) == ([], 1 + 1200 // 500)


def test_a_search_of_the_log_compares_each_topic_once_however_many_facts_have_it(tmp_path: Path) -> None:
    patterns = [f"queue:{'*:' * 90}{n}:*" for n in range(50)]
    with make_store("sqlite", tmp_path) as store:
        for _ in range(10):
            store.jobs.add_many([NewJob("A", f"q{n}") for n in range(20)])
        with Steps(50_000_000) as counted:
            assert fact_log.after(store, patterns, "0", 100) == ([], None)
    assert counted.count < 20_000


def test_a_reader_that_would_have_its_moves_looked_for_in_the_whole_log_gets_a_resync(server: Server) -> None:
    with server.store() as store:
        add(store, queue="rare")
        for _ in range(1200):
            add(store, queue="often")
    with server.client().events("queue:rare:jobs", after="0") as events:
        assert next(iter(events))["type"] == "resync"


def test_one_token_has_so_many_requests_that_wait_and_those_that_do_not_wait_are_answered(server: Server) -> None:
    mine, other = server.client(server.token("mine", "work")), server.client(server.token("other", "work"))
    worker = mine.post("/api/v1/workers", name="w")["id"]
    id = mine.post("/api/v1/orchestrators", crew="main", home=HOME)["id"]
    bell = f"/api/v1/orchestrators/{id}/bell"
    with ExitStack() as streams, ThreadPoolExecutor(1) as threads:
        streams.enter_context(mine.http.stream("GET", bell))
        waits = threads.submit(wait_for_work, mine, worker)
        eventually(lambda: is_full(mine, bell))
        assert "2 waiting requests" in mine.refused(429, "GET", bell)["detail"]
        mine.refused(429, "POST", "/api/v1/claims", {"worker_id": worker, "wait": 30})
        assert mine.post("/api/v1/claims", worker_id=worker) == []
        theirs = other.post("/api/v1/workers", name="w")["id"]
        assert other.post("/api/v1/claims", worker_id=theirs, wait=0.1) == []
        server.shell.add("A")
        assert waits.result(60).status_code == 200
    eventually(lambda: mine.call("POST", "/api/v1/claims", {"worker_id": worker, "wait": 0.1}).status_code == 200)


def wait_for_work(client: Client, worker: str) -> Response:
    """Claim, and again where `is_full` was just looking and had the last place."""
    while True:
        answer = client.call("POST", "/api/v1/claims", {"worker_id": worker, "wait": 30})
        if answer.status_code != 429:
            return answer


def is_full(client: Client, bell: str) -> bool:
    with client.http.stream("GET", bell) as answer:  # where there is room it would not end
        return answer.status_code == 429


def test_the_bells_of_one_token_ring_on_one_look_at_it(tmp_path: Path) -> None:
    server = Server(tmp_path, change=COUNTED)
    try:
        client = server.client(server.token("mine", "work"))
        id = client.post("/api/v1/orchestrators", crew="main", home=HOME)["id"]
        with ExitStack() as streams:
            path = f"/api/v1/orchestrators/{id}/bell"
            bells = [streams.enter_context(client.http.stream("GET", path)).iter_lines() for _ in range(30)]
            for bell in bells:
                assert (next(bell), next(bell)) == (": ring", "")
            before = server.log.read_text().count("proved")
            server.shell.add("A")
            for bell in bells:
                assert next(bell) == ": ring"
            assert server.log.read_text().count("proved") - before < 15
    finally:
        server.end()


def test_one_token_has_so_many_slots_and_no_request_makes_more(server: Server) -> None:
    client = server.client(server.token("mine", "work"))
    path = "/api/v1/orchestrators/{}/slots"
    id = client.post("/api/v1/orchestrators", crew="main", home=HOME)["id"]
    whole = slots.MOST_OF_CREW // 2
    client.refused(409, "POST", path.format(id), {"pools": {"a": whole, "b": whole, "c": 1}})
    client.refused(400, "POST", path.format(id), {"pools": {f"q{n}": 0 for n in range(1001)}})
    assert client.post(path.format(id)) == []
    have = 0
    while have < slots.MOST_OF_TOKEN:
        home = {**HOME, "host": f"far-{have}/1"}
        id = client.post("/api/v1/orchestrators", crew="main", home=home)["id"]
        have += len(client.post(path.format(id), pools={"a": whole, "b": whole}))
    assert len(client.post(path.format(id), pools={"a": whole, "b": whole})) == 2 * whole, "the same ones once more"
    id = client.post("/api/v1/orchestrators", crew="main", home={**HOME, "host": "more/1"})["id"]
    assert "5,001 with these" in client.refused(409, "POST", path.format(id), {"pools": {"a": 1}})["detail"]


def test_what_the_readers_of_a_token_have_open_is_counted_as_they_come_and_go() -> None:
    share = Share()
    for patterns in (("job.*",), (), ("job.*",)):
        share.add(patterns)
    share.remove(())
    assert (share.readers, dict(share.patterns)) == (2, {"job.*": 2})
    share.remove(("job.*",))
    share.remove(("job.*",))
    assert (share.readers, dict(share.patterns)) == (0, {})


def test_many_readers_of_many_topics_hold_the_loop_up_for_a_bounded_number_of_steps(tmp_path: Path) -> None:
    """Counted in lines of Python between two turns of the loop, as if they all were of other tokens."""
    with make_store("sqlite", tmp_path) as store:
        assert asyncio.run(most_steps_in_a_turn(store.database.url, readers=20)) < 20_000


async def most_steps_in_a_turn(url: str, readers: int) -> int:
    stores = StorePool(url, Settings(), 1, "feed")
    hub = stream_hub.Hub(stores, 60.0, ProcessMetrics())
    try:
        for n in range(readers):
            await hub.join(tuple(f"queue:*:{n}:{m}:jobs" for m in range(50)), None, str(n))
        reader, _ = await hub.join(("queue:jobs",), None, None)
        told, turns, new = 0, [0], [NewJob("A", f"q{n}") for n in range(40)]
        with Steps(50_000_000) as counted:
            adding = asyncio.ensure_future(stores.ask(lambda store: store.jobs.add_many(new)))
            while told < 40:
                await asyncio.sleep(0)
                turns.append(counted.count)
                told += reader.take().count(b'"verb":"add"')
            await adding
    finally:
        await hub.close()
        stores.close()
    return max(later - before for before, later in pairwise(turns))
