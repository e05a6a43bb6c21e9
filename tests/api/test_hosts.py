"""A host may touch its own orchestrator, and that one's slots, workers and claims; and no other's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from rota.process.host import host_id
from tests.support.work import add_many

if TYPE_CHECKING:
    from tests.api.servers import Server

DEATH = {"slot": "worker:tag:0", "reason": "signaled", "text": "ended by signal 9"}
ON_BOTH = (
    "test_a_host_works_with_the_scope_work_alone",
    "test_an_unstarted_job_goes_back_without_a_run_and_a_time_out_keeps_its_reason",
    "test_nobody_elses_orchestrator_worker_slot_or_claim",
    "test_nobody_is_told_the_errors_of_anothers_claims",
    "test_a_host_tells_the_log_little_and_of_its_own_alone",
    "test_a_host_of_one_name_is_another_for_each_token_and_for_this_machine",
    "test_whoever_comes_after_a_dead_one_takes_over_what_it_left",
    "test_the_bell_rings_for_work_and_ends_with_its_token",
)


class Host:
    """An orchestrator that is played over HTTP, with one worker."""

    def __init__(self, server: Server, name: str, *scopes: str) -> None:
        self.client = server.client(server.token(name, *(scopes or ("work",))))
        self.name = name
        self.home = {"host": f"boot-{name}/1", "hostname": name, "pid": 7, "version": "1"}
        self.join()
        (slot,) = self.ask("slots", pools={"tag": 1})
        self.slot = slot["name"]
        (self.worker,) = self.ask("worker-ids", count=1)["worker_ids"]
        self.ask("workers", worker_id=self.worker, slot=self.slot, queue="tag", pid=8, pid_start=9)
        self.ask("show", up=[{"worker_id": self.worker, "slot": self.slot}])
        self.number = 0

    def join(self) -> None:
        self.id = self.client.post("/api/v1/orchestrators", crew="main", home=self.home)["id"]

    def ask(self, what: str, **body: object) -> Any:
        return self.client.post(self.path(what), **body)

    def path(self, what: str) -> str:
        return f"/api/v1/orchestrators/{self.id}/{what}"

    def exchange(self, room: int = 1, **body: object) -> Any:
        idle = [{"worker_id": self.worker, "queue": "tag", "room": room}] if room else []
        answer = self.ask("exchange", number=self.number, idle=idle, **body)
        self.number = answer["number"]
        return answer


def test_an_orchestrator_over_http_is_told_of_no_process_beside_the_database(server: Server) -> None:
    home = {"host": host_id(), "hostname": "here", "pid": os.getpid(), "version": "1"}
    with server.store() as store:
        store.workers.register("a loop beside", None, os.getpid())
    for client in (server.client(server.token("one", "work")), server.client()):
        id = client.post("/api/v1/orchestrators", crew="main", home=home)["id"]
        assert client.post(f"/api/v1/orchestrators/{id}/look", polls=True)["processes"] == []


def test_a_host_works_with_the_scope_work_alone(server: Server) -> None:
    one = Host(server, "one")
    with server.store() as store:
        add_many(store, 1, queue="tag", payload={"path": "a.wav"}, key="k", timeout=90_000_000)
        (claim,) = one.exchange()["claims"]
        assert (claim["payload_text"], claim["key"], claim["timeout"]) == ('{"path":"a.wav"}', "k", 90.0)
        assert store.workers.get(one.worker).hostname == "one"
        outcome = {"job_id": claim["job_id"], "token": claim["token"], "outcome": "done", "result": "[1.50]"}
        one.exchange(0, outcomes=[outcome])
        assert store.jobs.get(1).result_json == "[1.50]"
        assert one.ask("look")["directive"]["slots"][0]["status"] == "up"
        one.client.delete(f"/api/v1/orchestrators/{one.id}")
        assert store.orchestrators.live() == [] and store.workers.list() == []


def test_an_unstarted_job_goes_back_without_a_run_and_a_time_out_keeps_its_reason(server: Server) -> None:
    one = Host(server, "one")
    with server.store() as store:
        add_many(store, 2, queue="tag")
        first, second = one.exchange(2)["claims"]
        told = {"job_id": second["job_id"], "token": second["token"]}
        late = {"job_id": first["job_id"], "token": first["token"], "outcome": "failed", "reason": "timeout"}
        one.exchange(0, outcomes=[{**told, "outcome": "returned"}, late])
        assert store.claims.runs(second["job_id"]) == [] and store.jobs.get(second["job_id"]).status == "ready"
        assert [run.reason for run in store.claims.runs(first["job_id"])] == ["timeout"]


def test_nobody_elses_orchestrator_worker_slot_or_claim(server: Server) -> None:
    one, two = Host(server, "one"), Host(server, "two")
    with server.store() as store:
        add_many(store, 1, queue="tag")
        (claim,) = one.exchange()["claims"]
        mine = {"job_id": claim["job_id"], "token": claim["token"]}
        before = (store.jobs.get(1), store.workers.get(one.worker), store.slots.all())
        death = {"worker_id": one.worker, **DEATH, "slot": two.slot}
        for path, body in (
            (one.path("lease"), {}),
            (one.path("exchange"), {"number": one.number}),
            (one.path("look"), {}),
            (one.path("show"), {}),
            (one.path("slots"), {"pools": {}}),
            (one.path("take-over"), {}),
            (two.path("exchange"), {"number": two.number, "outcomes": [{**mine, "outcome": "done"}]}),
            (two.path("exchange"), {"number": two.number, "checkpoints": [{**mine, "value": 1}]}),
            (two.path("certificates"), {"death": death}),
            (two.path("certificates"), {"death": {**death, "worker_id": two.worker, "slot": one.slot}}),
            (two.path("burials"), {"worker_id": one.worker, "reason": "lost", "text": "x"}),
            (two.path("show"), {"up": [{"worker_id": one.worker, "slot": two.slot}]}),
            (two.path("show"), {"felt": [{"slot": one.slot, "health": "dead"}]}),
            (two.path("workers"), {"worker_id": "worker-zzzzzzzz", "slot": one.slot, "queue": "tag", "pid": 1}),
            (f"/api/v1/workers/{one.worker}/orphan/begin", {}),
            (f"/api/v1/workers/{one.worker}/orphan/end", {"death": death}),
            ("/api/v1/jobs/1/claim/settle", {"token": claim["token"], "outcome": "done"}),
        ):
            two.client.refused(403, "POST", path, body)
        two.client.refused(403, "GET", f"/api/v1/orchestrators/{one.id}")
        two.client.refused(403, "DELETE", f"/api/v1/orchestrators/{one.id}")
        assert (store.jobs.get(1), store.workers.get(one.worker), store.slots.all()) == before
        one.exchange(0, outcomes=[{**mine, "outcome": "done"}])
        assert store.jobs.get(1).status == "done"


def test_nobody_is_told_the_errors_of_anothers_claims(server: Server) -> None:
    one, two = Host(server, "one"), Host(server, "two")
    with server.store() as store:
        add_many(store, 1, queue="tag")
    (claim,) = one.exchange()["claims"]
    outcome = {"job_id": claim["job_id"], "token": claim["token"], "outcome": "failed", "error": "secret"}
    one.exchange(0, outcomes=[outcome])
    tokens = [claim["token"]]
    assert one.ask("ends", tokens=tokens) == [{"token": claim["token"], "verb": "fail", "error": "secret"}]
    assert two.ask("ends", tokens=tokens) == []


def test_a_host_tells_the_log_little_and_of_its_own_alone(server: Server) -> None:
    one, two = Host(server, "one"), Host(server, "two")
    leak: dict[str, Any] = {
        "noun": "worker",
        "verb": "leak",
        "which": two.worker,
        "details": {"pid": 7, "command": "sleep"},
    }
    health = {"noun": "slot", "verb": "snapshot", "which": two.slot, "details": {"status": "up"}}
    before = facts_of(server)
    for fact in (leak, health):
        one.client.refused(403, "POST", one.path("show"), {"noted": [fact]})
    for details in ({"text": "x" * 5000}, {f"f{n}": n for n in range(1000)}):
        two.client.refused(400, "POST", two.path("show"), {"noted": [{**leak, "details": details}]})
    said = {"worker_id": two.worker, "metadata": {"text": "x" * 70_000}}
    two.client.refused(400, "POST", two.path("show"), {"said": [said]})
    two.ask("show", noted=[{**leak, "which": "worker-nobodys1"}, {**health, "which": "worker:tag:77"}])
    assert facts_of(server) == before, "nothing of all that was written"
    spoofed = {**leak, "details": {**leak["details"], "by": "admin", "slot": one.slot, "id": one.worker}}
    two.ask("show", noted=[spoofed, health])
    by = {"by": "two@http"}
    told = [
        ["worker", "leak", two.worker, {"pid": 7, "command": "sleep", **by}],
        ["slot", "snapshot", two.slot, {"status": "up", **by}],
    ]
    assert facts_of(server) == [*before, ("two@http", told)]


def facts_of(server: Server) -> list[tuple[str, Any]]:
    """What the log says and who said it; an event's cursor may differ with where it was read from."""
    return [(event["actor"], event["facts"]) for event in server.client().get("/api/v1/events/raw")]


def test_a_host_of_one_name_is_another_for_each_token_and_for_this_machine(server: Server) -> None:
    """Its crews, slots and workers are not taken over by a token that says that it is there too."""
    one = Host(server, "one")
    with server.store() as store:
        id = store.orchestrators.join()
        home, _ = store.orchestrators.home(id)
        (slot,) = store.slots.take("main", home.host, {"tag": 1})
        worker = store.orchestrators.register_worker(id, slot.name, "tag")
        two = server.client(server.token("two", "work"))
        for host in (one.home["host"], home.host):
            mine = two.post("/api/v1/orchestrators", crew="main", home={**one.home, "host": host})["id"]
            of = f"/api/v1/orchestrators/{mine}"
            assert two.get(of)["before"] == two.post(f"{of}/take-over") == two.post(f"{of}/slots") == []
        assert {each.id for each in store.workers.list()} == {one.worker, worker}
        assert {one.id, id} <= {each.id for each in store.orchestrators.live()}


def test_whoever_comes_after_a_dead_one_takes_over_what_it_left(server: Server) -> None:
    one = Host(server, "one")
    with server.store() as store:
        add_many(store, 2, queue="tag")
        (claim,) = one.exchange()["claims"]
        dead, one.number = one.id, 0
        one.join()
        standing = one.client.get(f"/api/v1/orchestrators/{one.id}")
        assert standing == {
            "number": 0,
            "before": [{"worker_id": one.worker, "pid": 8, "pid_start": 9, "slot": one.slot}],
        }
        assert one.ask("take-over", living=[one.worker]) == standing["before"]
        assert store.workers.get(one.worker).orchestrator is None and [o.id for o in store.orchestrators.live()] == [
            one.id
        ]
        orphan = f"/api/v1/workers/{one.worker}/orphan"
        mine = {"job_id": claim["job_id"], "token": claim["token"]}
        assert one.client.post(f"{orphan}/begin", in_hand=[claim["token"]]) == {"held": [claim["token"]]}
        assert one.client.post(f"{orphan}/renew", claims=[mine, {**mine, "token": 99}]) == {"held": [claim["token"]]}
        one.client.post(f"{orphan}/report", checkpoints=[{**mine, "value": {"page": 2}}])
        assert store.jobs.get(claim["job_id"]).checkpoint == {"page": 2}
        one.client.post(f"{orphan}/report", outcomes=[{**mine, "outcome": "done"}])
        death = {"worker_id": one.worker, **DEATH, "slot": one.slot, "reason": "exited", "exit_code": 82, "asked": True}
        one.client.post(f"{orphan}/end", death=death)
        assert store.jobs.get(claim["job_id"]).status == "done" and store.workers.get(one.worker).status == "stopped"
        assert dead != one.id


@pytest.mark.parametrize("living", [True, False])
def test_a_claim_whose_answer_was_lost_goes_back(server: Server, living: bool) -> None:
    one = Host(server, "one")
    with server.store() as store:
        add_many(store, 1, queue="tag")
        (claim,) = one.exchange()["claims"]
        number = one.client.get(f"/api/v1/orchestrators/{one.id}")["number"]
        assert number == one.number == 1
        one.exchange(0, holdings=[claim["token"]] if living else [])
        assert store.jobs.get(1).status == ("active" if living else "ready")


def test_the_bell_rings_for_work_and_ends_with_its_token(server: Server) -> None:
    one = Host(server, "one")
    with one.client.http.stream("GET", one.path("bell")) as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": ring" and next(lines) == ""
        server.shell.add("A", "--queue", "tag")
        assert next(lines) == ": ring"
        with server.store() as store:
            (token,) = [token for token in store.tokens.list() if token.name == "one"]
            store.tokens.revoke(token.id)
        server.shell.add("B", "--queue", "tag")
        assert [line for line in lines if line] == [], "nothing more comes, and the stream ends"
