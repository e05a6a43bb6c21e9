"""Taking jobs over HTTP, with and without a wait."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from rota.core.job import NewJob
from rota.core.source import Declared
from rota.core.times import MINUTE
from rota.store.sources import Found
from tests.support.eventually import eventually
from tests.support.stores import rows
from tests.support.work import Crew

if TYPE_CHECKING:
    from tests.api.servers import Client, Server
ON_BOTH = (
    "test_a_job_that_comes_while_somebody_waits_is_taken_at_once",
    "test_many_who_wait_get_one_job_each_and_none_twice",
)


def take(client: Client, worker: str, wait: float = 0, **more: object) -> list[dict[str, Any]]:
    taken: list[dict[str, Any]] = client.post("/api/v1/claims", worker_id=worker, wait=wait, **more)
    return taken


def waits(server: Server) -> bool:
    """Whether a request has come so far that the server listens for work."""
    if "ROTA_DB" not in server.shell.env:
        return (server.shell.folder / ".rota" / "rota.db.notify").exists()
    with server.store() as store:
        listening = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        return bool(rows(store, listening))


def test_nothing_ready_is_an_empty_list_at_once_or_after_the_wait(server: Server) -> None:
    client = server.client()
    worker = client.post("/api/v1/workers", name="w")["id"]
    assert take(client, worker) == []
    began = time.monotonic()
    assert take(client, worker, 0.5) == []
    assert time.monotonic() - began >= 0.5


def test_a_job_that_comes_while_somebody_waits_is_taken_at_once(server: Server) -> None:
    client = server.client()
    worker = client.post("/api/v1/workers", name="w")["id"]
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(take, client, worker, 30, queue="tag")
        eventually(lambda: waits(server))
        server.shell.add("Other", "--queue", "other")
        with pytest.raises(TimeoutError):
            waiting.result(0.5)
        added = time.time()
        id = server.shell.add("Tag", "--queue", "tag")
        (job,) = waiting.result(20)
        assert (job["id"], job["claim"]["worker_id"]) == (id, worker)
        assert time.time() - added < 10, "not after the wait"


def test_many_who_wait_get_one_job_each_and_none_twice(server: Server) -> None:
    client = server.client()
    workers = [client.post("/api/v1/workers", name=f"w{n}")["id"] for n in range(12)]
    with ThreadPoolExecutor(12) as threads:
        waiting = [threads.submit(take, server.client(), worker, 20) for worker in workers]
        eventually(lambda: waits(server))
        client.post("/api/v1/jobs/bulk", jobs=[{"title": str(n)} for n in range(12)])
        taken = [job["id"] for each in waiting for job in each.result(60)]
    assert sorted(taken) == list(range(1, 13))


def test_waiting_is_a_beat(server: Server) -> None:
    client = server.client()
    worker = client.post("/api/v1/workers", name="w", every=1)["id"]
    assert take(client, worker, 5) == []
    (shown,) = server.shell.ask("worker", "list")
    assert (shown["id"], shown["status"]) == (worker, "idle"), "five beats long, and not late"


def test_a_caller_that_has_gone_takes_nothing(server: Server) -> None:
    client = server.client()
    worker = client.post("/api/v1/workers", name="w")["id"]
    impatient = httpx.Client(base_url=server.url, headers=client.http.headers, timeout=1)
    with pytest.raises(httpx.ReadTimeout):
        impatient.post("/api/v1/claims", json={"worker_id": worker, "wait": 30})
    impatient.close()
    ended = 'rota_http_requests_total{method="POST",path="/api/v1/claims"'
    eventually(lambda: ended in server.stranger().call("GET", "/metrics").text, within=20)
    id = server.shell.add()
    assert server.shell.ask("show", id)["status"] == "ready"
    (job,) = take(client, worker)
    assert job["id"] == id


def test_a_worker_that_nobody_registered_must_register(server: Server) -> None:
    problem = server.client().refused(404, "POST", "/api/v1/claims", {"worker_id": "worker-00000000", "wait": 5})
    assert problem["code"] == 7


def test_a_job_that_came_from_a_source_is_settled_though_it_leaves_no_row(server: Server) -> None:
    client = server.client(server.token("far", "work"))
    with server.store() as store:
        store.sources.declare([Declared("files", "tag", "tag", MINUTE, 1, 10, None)])
        (filler,) = Crew(store, 1, "tag").exchange().claims
        found = [Found("a.wav", None)]
        store.sources.fill("files", (filler.job_id, filler.token), found, NewJob("", queue="tag"), exhausted=True)
        worker = client.post("/api/v1/workers", name="far")["id"]
        (job,) = client.post("/api/v1/claims", worker_id=worker, queue="tag")
        path, told = f"/api/v1/jobs/{job['id']}/claim/settle", {"token": job["claim"]["token"], "outcome": "done"}
        settled = client.post(path, **told)
        assert (settled["id"], settled["status"], settled["title"]) == (job["id"], "done", "tag a.wav")
        assert client.post(path, **told) == {"id": job["id"], "status": "done"}, "once more is no error"
        client.refused(404, "POST", path, {**told, "token": job["claim"]["token"] + 1})
        assert store.sources.get("files").success_count == 1


def test_who_may_only_work_reads_what_its_own_job_waited_for_and_no_other(server: Server) -> None:
    shell = server.shell
    first = shell.add()
    then = shell.add("Report", "--after", first)
    shell.say("claim", first)
    shell.say("done", first, "--result", "7")
    worker = server.client(server.token("worker", "work"))
    mine = worker.post("/api/v1/workers", name="loop")["id"]
    token = worker.post(f"/api/v1/jobs/{then}/claim", worker_id=mine)["token"]
    path = f"/api/v1/jobs/{then}/claim/results"
    assert [each["result"] for each in worker.post(path, token=token)] == [7]
    assert worker.call("POST", path, {"token": token + 1}).status_code == 412
    other = server.client(server.token("other", "work"))
    assert other.call("POST", path, {"token": token}).status_code == 403
