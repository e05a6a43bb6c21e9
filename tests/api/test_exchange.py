"""An orchestrator that reaches only the API: it renews, settles and claims in one step, and records deaths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.process.host import host_id
from rota.store.workers.crews import Process
from tests.support.work import Crew, add_many

if TYPE_CHECKING:
    from tests.api.servers import Server


def test_an_exchange_settles_and_claims_in_one_step(server: Server) -> None:
    client = server.client()
    with server.store() as store:
        crew = Crew(store, 1, "tag")
        add_many(store, 3, queue="tag", payload={"path": "a.wav"})
        path = f"/api/v1/orchestrators/{crew.id}/exchange"
        idle = [{"worker_id": crew.workers[0], "queue": "tag", "room": 2}]
        first = client.post(path, number=0, idle=idle)
        assert [claim["job_id"] for claim in first["claims"]] == [1, 2] and first["number"] == 1
        assert first["claims"][0]["payload_text"] == '{"path":"a.wav"}'
        one, two = first["claims"]
        outcomes = [
            {"job_id": 1, "token": one["token"], "outcome": "done", "result": "[1]"},
            {"job_id": 2, "token": two["token"] + 9, "outcome": "done"},
        ]
        kept = [{"job_id": 2, "token": two["token"], "value": {"page": 3}}]
        second = client.post(path, number=1, idle=idle[:0], outcomes=outcomes, checkpoints=kept)
        assert second == {"claims": [], "refused": [two["token"] + 9], "number": 2, "rate_free_in": None}
        assert store.jobs.get(1).result == [1] and store.jobs.get(2).checkpoint == {"page": 3}
        assert client.refused(412, "POST", path, {"number": 1, "outcomes": outcomes})["code"] == 5, "it came late"
        third = client.post(path, number=2, holdings=[])
        assert third["number"] == 3 and store.jobs.get(2).status == "ready", "what it does not hold goes back"


def test_a_kind_that_is_not_known_and_a_failure_that_is_not_charged_arrive_as_such(server: Server) -> None:
    """Told by a crew on a host elsewhere; a worker there that declares the kind frees the job."""
    client = server.client()
    with server.store() as store:
        store.slots.take("main", host_id(), {"tag": 1})
        crew = Crew(store, 1, "tag")
        add_many(store, 2, queue="tag", kind="fresh")
        path = f"/api/v1/orchestrators/{crew.id}"
        idle = [{"worker_id": crew.workers[0], "queue": "tag", "room": 2}]
        one, two = client.post(f"{path}/exchange", number=0, idle=idle)["claims"]
        outcomes = [
            {"job_id": 1, "token": one["token"], "outcome": "released", "reason": "kind", "note": "no such task"},
            {"job_id": 2, "token": two["token"], "outcome": "failed", "error": "no database", "put_off": 4_000_000},
        ]
        assert client.post(f"{path}/exchange", number=1, outcomes=outcomes)["refused"] == []
        aside, failed = store.jobs.get(1), store.jobs.get(2)
        assert (aside.status, aside.blocked_on, aside.attempts) == ("blocked", "kind", 0)
        assert (failed.status, failed.error, failed.attempts) == ("scheduled", "no database", 0)
        process = Process(store.new_worker_id(), 1, 1, "worker:tag:0")
        store.orchestrators.register_worker(crew.id, "worker:tag:0", "tag", process)
        up = {"worker_id": process.worker_id, "slot": "worker:tag:0", "kinds": ["fresh"]}
        client.post(f"{path}/show", up=[up])
        assert store.jobs.get(1).status == "ready"


def test_a_lease_is_renewed_until_it_is_given_up(server: Server) -> None:
    client = server.client()
    with server.store() as store:
        crew = Crew(store)
        path = f"/api/v1/orchestrators/{crew.id}/lease"
        store.queues.set("tag", max_depth=1)
        answer = client.post(path, acknowledged_directive=0)
        assert answer["directive"] == store.orchestrators.last_directive() and answer["lease_expires_at"].endswith("Z")
        store.orchestrators.leave(crew.id)
        assert client.refused(412, "POST", path, {})["code"] == 5


def test_a_death_is_recorded_with_its_last_words_and_the_slot_is_told_when_to_start(server: Server) -> None:
    client = server.client()
    with server.store() as store:
        store.slots.scale("main", host_id(), "tag", 1)
        crew = Crew(store, 1, "tag")
        add_many(store, 2, queue="tag")
        idle = [{"worker_id": crew.workers[0], "queue": "tag", "room": 2}]
        claims = client.post(f"/api/v1/orchestrators/{crew.id}/exchange", number=0, idle=idle)["claims"]
        last = [{"job_id": 1, "token": claims[0]["token"], "outcome": "done"}]
        death = {
            "worker_id": crew.workers[0],
            "slot": "worker:tag:0",
            "reason": "signaled",
            "text": "ended by signal 9",
        }
        other = f"/api/v1/orchestrators/{crew.id + 1}/certificates"
        assert client.refused(409, "POST", other, {"death": {**death, "signal": 9}})["code"] == 4, "another watches it"
        path = f"/api/v1/orchestrators/{crew.id}/certificates"
        answer = client.post(path, death={**death, "signal": 9}, outcomes=last)
        assert answer == {"starts_in": 1.0, "reason": None}
        assert (store.jobs.get(1).status, store.jobs.get(2).status) == ("done", "ready")
        certificate = client.get(f"/api/v1/workers/{crew.workers[0]}/certificate")
        assert (certificate["reason"], certificate["signal"], certificate["job_id"]) == ("signaled", 9, 2)
