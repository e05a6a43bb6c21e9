"""What one token may have and ask for: no cheap request costs the store or the API much."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.claims.exchange import MOST_OVER_HTTP, Idle, Report
from rota.store.open import open_store
from tests.api.servers import Server
from tests.support.eventually import eventually
from tests.support.stores import make_store
from tests.support.work import add

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SMALL = """
from rota.store.jobs.jobs import Jobs
ready = Jobs.ready
def counted(self, queue=None, limit=10):
    print(f"looked into {queue}", flush=True)
    return ready(self, queue, limit)
Jobs.ready = counted
from rota.api.routes import jobs
from rota.store import ownership
from rota.store.jobs import jobs as search
ownership.MOST_QUEUES, ownership.MOST_WORKERS, ownership.MOST_ORCHESTRATORS, ownership.MOST_SCHEDULES = 4, 30, 2, 2
jobs.MOST_EDGES, jobs.READ_AT_ONCE = 9, 2
jobs.LARGEST_PAGE = search.LARGEST_PAGE = 1000
"""
HOME = {"host": "far", "hostname": "far", "pid": 7, "version": "1"}
ALL, BULK = "/api/v1/orchestrators", "/api/v1/jobs/bulk"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With small bounds, and with a poll so seldom that only the notification wakes who waits."""
    server = Server(tmp_path_factory.mktemp("shares"), change=SMALL, ROTA_POLL_INTERVAL="60s")
    yield server
    server.end()


def test_a_token_adds_to_so_many_queues_and_an_admin_to_as_many_as_it_likes(server: Server) -> None:
    with server.store() as store:
        have = len(store.queues.list())
    client = server.client(server.token("adding", "enqueue", "work"))
    new = [{"title": "A", "queue": f"new-{n}"} for n in range(5 - have)]
    for jobs in (new, [{"title": "B", "key": "k", "queue": f"other-{n}"} for n in range(6)]):
        assert "beyond 4" in client.refused(409, "POST", BULK, {"jobs": jobs})["detail"]
    client.post(BULK, jobs=new[1:])
    for path, body in ((BULK, {"jobs": new[:1]}), ("/api/v1/jobs", new[0])):
        assert "may not begin queue new-0: there are 4 already" in client.refused(409, "POST", path, body)["detail"]
    id = client.post(ALL, crew="main", home=HOME)["id"]
    declared = {"schedules": [{"name": "s", "cron": "0 6 * * *", "queue": "new-0"}]}
    client.refused(409, "POST", f"{ALL}/{id}/schedules", declared)
    client.delete(f"{ALL}/{id}")
    client.post(BULK, jobs=new[1:])
    server.client().post(BULK, jobs=new)
    client.post("/api/v1/jobs", **new[0])


def test_a_token_has_so_many_workers_orchestrators_and_schedules_at_a_time(server: Server) -> None:
    client, other = (server.client(server.token(name, "work", "enqueue")) for name in ("many", "another"))
    workers = [client.post("/api/v1/workers", name="w")["id"] for _ in range(30)]
    assert "at most 30 living workers" in client.refused(409, "POST", "/api/v1/workers", {"name": "w"})["detail"]
    ids = [client.post(ALL, crew=f"c{n}", home=HOME)["id"] for n in range(2)]
    refused = client.refused(409, "POST", ALL, {"crew": "main", "home": HOME})
    assert "at most 2 orchestrators at a time" in refused["detail"]
    (slot,) = client.post(f"{ALL}/{ids[0]}/slots", pools={"tag": 1})
    (worker,) = client.post(f"{ALL}/{ids[0]}/worker-ids", count=1)["worker_ids"]
    register_worker = {"worker_id": worker, "slot": slot["name"], "queue": "tag", "pid": 1}
    assert "living workers" in client.refused(409, "POST", f"{ALL}/{ids[0]}/workers", register_worker)["detail"]
    client.delete(f"/api/v1/workers/{workers[0]}")
    client.post(f"{ALL}/{ids[0]}/workers", **register_worker)
    with server.store() as store:
        queue = store.queues.set("default").name
    named = [{"name": f"s{n}", "cron": "0 6 * * *", "queue": queue} for n in range(3)]
    path = f"{ALL}/{ids[0]}/schedules"
    assert "at most 2 schedules" in client.refused(409, "POST", path, {"schedules": named})["detail"]
    client.post(path, schedules=named[:2])
    client.post(path, schedules=[{**each, "cron": "0 7 * * *"} for each in named[:2]])
    client.refused(409, "POST", path, {"schedules": named[2:]})
    for id in ids:
        client.delete(f"{ALL}/{id}")
    client.post(ALL, crew="main", home=HOME)
    other.post("/api/v1/workers", name="w")
    other.post(ALL, crew="main", home=HOME)


def test_one_request_adds_so_many_dependencies_and_tells_of_so_many_kinds(server: Server) -> None:
    client = server.client()
    jobs = [{"title": "A", "follows": list(range(n))} for n in range(5)]
    assert "at most 9" in client.refused(413, "POST", BULK, {"jobs": jobs})["detail"]
    assert len(client.post(BULK, jobs=jobs[:4])["ids"]) == 4
    id = client.post(ALL, crew="kinds", home=HOME)["id"]
    up = {"worker_id": "worker-00000000", "slot": "worker:tag:0", "kinds": [f"{n:0200}" for n in range(400)]}
    assert "kinds" in client.refused(400, "POST", f"{ALL}/{id}/show", {"up": [up]})["detail"]


def test_a_list_of_large_jobs_comes_in_pages_and_whole_to_a_program(server: Server) -> None:
    """However many were asked for, so that no answer takes gigabytes."""
    client = server.client()
    ids = client.post(BULK, jobs=[{"title": "large", "queue": "large", "payload": "x" * 300} for _ in range(9)])["ids"]
    for first in ("/api/v1/jobs?queue=large&limit=1000", "/api/v1/jobs?queue=large&search=large&limit=1000"):
        path, found, pages = first, [], 0
        while path:
            answer = client.call("GET", path)
            found += [job["id"] for job in answer.json()]
            path, pages = answer.links.get("next", {}).get("url", ""), pages + 1
        assert (found, pages) == (ids[::-1], 3)
    with open_store(server.url.replace("://", f"://{server.secret}@"), Settings()) as far:
        assert [job.id for job in far.jobs.list(queue="large")] == ids[::-1]
        assert [job.id for job in far.jobs.list(queue="large", limit=5)] == ids[:3:-1]


def test_who_waits_for_work_writes_nothing_whenever_anyone_adds_a_job(server: Server) -> None:
    """Else one request that waits would cost a write for each change that anyone makes."""
    client = server.client()
    client.post("/api/v1/jobs", title="A", queue="busy")
    client.post("/api/v1/jobs", title="A", queue="mine")
    worker = client.post("/api/v1/workers", name="w")["id"]
    assert client.post("/api/v1/claims", worker_id=worker, queue="mine")
    with ThreadPoolExecutor(1) as threads, server.store() as store:
        beat = store.workers.get(worker).last_heartbeat_at
        waiting = threads.submit(client.post, "/api/v1/claims", worker_id=worker, queue="mine", wait=30)
        eventually(lambda: store.workers.get(worker).last_heartbeat_at > beat)  # it has looked, and waits
        for _ in range(10):
            store.jobs.add(NewJob("A", "busy"))
        store.jobs.add(NewJob("A", "mine"))
        assert waiting.result(60) and store.workers.get(worker).heartbeat_count == 0


def test_those_that_wait_for_the_same_work_look_for_it_once_when_they_are_woken(server: Server) -> None:
    client, looked = server.client(server.token("waiting", "work", "enqueue")), "looked into same"
    for queue in ("same", "busy"):
        server.client().post("/api/v1/jobs", title="A", queue=queue)
    workers = [client.post("/api/v1/workers", name="w")["id"] for _ in range(20)]
    assert client.post("/api/v1/claims", worker_id=workers[0], queue="same")
    with ThreadPoolExecutor(20) as threads:
        answers = [
            threads.submit(client.post, "/api/v1/claims", worker_id=worker, queue="same", wait=30) for worker in workers
        ]
        with server.store() as store:
            registered = {worker.id: worker.registered_at for worker in store.workers.list()}
            eventually(lambda: all(store.workers.get(each).last_heartbeat_at > registered[each] for each in workers))
            before = server.log.read_text().count(looked)
            eventually(lambda: add(store, queue="busy") and server.log.read_text().count(looked) > before, within=30)
            before = server.log.read_text().count(looked)
            store.jobs.add_many([NewJob("A", "same") for _ in workers])
        assert all(answer.result(60) for answer in answers)
        assert server.log.read_text().count(looked) - before < 10


def test_one_exchange_over_http_claims_a_bounded_number_and_shares_them(tmp_path: Path) -> None:
    """However much room was told of, and however often the same worker was named."""
    with make_store("sqlite", tmp_path) as store:
        store.jobs.add_many([NewJob("A", "tag") for _ in range(2 * MOST_OVER_HTTP)])
        id = store.orchestrators.join()
        workers = [store.orchestrators.register_worker(id, f"worker:tag:{n}", "tag") for n in range(2)]
        idle = [Idle(worker, "tag", 1000) for worker in workers]
        store.access = store.tokens.create("far", ["admin"])[0]
        claims = store.orchestrators.exchange(id, 0, Report(idle=idle * 500)).claims
        assert Counter(claim.worker_id for claim in claims) == dict.fromkeys(workers, MOST_OVER_HTTP // 2)
        assert len(store.orchestrators.exchange(id, 1, Report(idle=idle)).claims) == MOST_OVER_HTTP, "the rest"


class Once(list[int]):
    """What is too long to be searched for each claim that hangs on an orchestrator."""

    def __contains__(self, _: object) -> bool:
        raise AssertionError("a hundred thousand tokens, looked through for each of as many claims, take minutes")


def test_tokens_that_are_still_held_are_not_searched_for_each_claim(tmp_path: Path) -> None:
    with make_store("sqlite", tmp_path) as store:
        store.jobs.add_many([NewJob("A", "tag") for _ in range(3)])
        id = store.orchestrators.join()
        worker = store.orchestrators.register_worker(id, "worker:tag:0", "tag")
        claims = store.orchestrators.exchange(id, 0, Report(idle=[Idle(worker, "tag", 3)])).claims
        holdings = Once([claims[0].token, *range(1000, 1010)])
        store.orchestrators.exchange(id, 1, Report(holdings=holdings))
        assert [job.id for job in store.jobs.list("active")] == [claims[0].job_id]


def test_no_other_way_of_writing_a_request_opens_what_its_scope_does_not(server: Server) -> None:
    """A path, a method or a header that a proxy and the API might read in two ways is read in one, or refused."""
    client, admin = server.client(server.token("reading", "read")), server.client()
    id = admin.post("/api/v1/jobs", title="A", queue="busy")["id"]
    one = f"/api/v1/jobs/{id}"
    for method, path, headers in (
        ("GET", f"{one}/", {}),
        ("GET", f"/api/v1//jobs/{id}", {}),
        ("GET", f"/api/v1/jobs/%2e%2e/jobs/{id}", {}),
        ("GET", "/api/v1/jobs/%2e%2e%2ftokens", {}),
        ("GET", "/api/v1/jobs/..;/tokens", {}),
        ("GET", "/api/v1/jobs%2f..%2ftokens", {}),
        ("GET", "/api/v1/tokens", {}),
        ("GET", "/API/v1/tokens", {}),
        ("GET", "/api/v1/jobs/\u0661", {}),
        ("GET", f"{one}%00", {}),
        ("GET", "/api/v1/jobs/%ff", {}),
        ("GET", f"/api/v1/jobs/-{id}", {}),
        ("GET", f"/api/v1/jobs/{'9' * 400}", {}),
        ("GET", "/api/v1/jobs?limit=1&limit=2", {}),
        ("GET", "/api/v1/jobs?limit=%2b1", {}),
        ("POST", f"{one}%2fcancel", {}),
        ("POST", f"{one}/cancel", {}),
        ("POST", f"{one}/cancel/", {}),
        ("POST", one, {"x-http-method-override": "DELETE"}),
        ("GET", f"{one}/cancel", {"x-http-method-override": "POST"}),
        ("GET", f"{one}/cancel?_method=POST", {}),
        ("TRACE", one, {}),
        ("post", f"{one}/cancel", {}),
        ("PROPFIND", one, {}),
        ("POST", f"{one}/cancel", {"authorization": "", "cookie": "rota=x"}),
    ):
        content = b"{}" if method.upper() == "POST" else None
        kind = {"content-type": "application/json"} if content else {}
        answer = client.http.request(method, path, content=content, headers={**kind, **headers})
        assert 400 <= answer.status_code < 500, (method, path, answer.status_code)
    for tail in ("", "/cancel"):
        assert client.call("HEAD", one + tail).content == b""
    assert admin.get(one)["status"] == "ready"
    assert "a bug in rota" not in server.log.read_text()
