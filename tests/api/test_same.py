"""What HTTP answers is what the command line prints, for the same thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from rota.api.app import ROUTES
from rota.api.schemas import nouns
from rota.core.source import Declared
from rota.core.times import MINUTE
from rota.process.host import host_id
from rota.settings import Settings

if TYPE_CHECKING:
    from tests.api.servers import Server

READS: dict[str, list[str | int]] = {
    "/api/v1/jobs": ["list"],
    "/api/v1/jobs?status=ready&limit=1": ["list", "--status", "ready", "--limit", 1],
    "/api/v1/jobs?queue=tag&before=3": ["list", "--queue", "tag", "--before", 3],
    "/api/v1/jobs/ready?queue=tag": ["ready", "--queue", "tag"],
    "/api/v1/jobs/1": ["show", 1],
    "/api/v1/jobs/2": ["show", 2],
    "/api/v1/jobs/1/runs": ["runs", 1],
    "/api/v1/jobs/2/why": ["why", 2],
    "/api/v1/jobs?internal=true": ["list", "--internal"],
    "/api/v1/queues": ["queue", "list"],
    "/api/v1/sources": ["source", "list"],
    "/api/v1/schedules": ["schedule", "list"],
    "/api/v1/schedules/nightly": ["schedule", "show", "nightly"],
    "/api/v1/jobs/2/results": ["results", 2],
    "/api/v1/workers": ["worker", "list"],
    "/api/v1/workers?all=true": ["worker", "list", "--all"],
    "/api/v1/tokens": ["token", "list"],
    "/api/v1/events/log?limit=1000": ["events", "--limit", 1000],
    "/api/v1/events/log?topics=queue:tag:*&after=2": ["events", "--topic", "queue:tag:*", "--after", 2],
    "/api/v1/slots/worker:tag:0/why": ["why", "worker:tag:0"],
}
ON_BOTH = (
    "test_the_verbs_answer_what_the_command_line_prints",
    "test_the_other_verbs_do_what_they_say",
)


@pytest.fixture(scope="module")
def busy(shared: Server) -> Server:
    """A database in which something has happened."""
    shell = shared.shell
    shell.add("Tag a", "--queue", "tag", "--payload", '{"path": "a.wav", "n": 1.5}', "--key", "a", "--priority", 3)
    shell.add("Tag b", "--queue", "tag", "--after", 1, "--parent", 1, "--at", "+1h", "--timeout", "10m")
    shell.add("Scan", "--queue", "scan"), shell.add("Tag c", "--queue", "tag")
    worker = shell.register("loop", "--queue", "tag")
    claim = shell.ask("claim", 1, worker)
    shell.say("done", 1, "--token", claim["token"], "--result", '{"tags": [1, 2]}')
    shell.say("queue", "set", "scan", "--max-depth", 10, "--rate", "10/m")
    shell.say("pause", "scan", "--reason", "a new model")
    shell.say("scale", "tag=2")
    shell.say("schedule", "add", "nightly", "--cron", "0 2 * * *", "--payload", '{"n": 1.5}')
    shell.say("schedule", "run", "nightly")
    with shared.store() as store:
        store.sources.declare([Declared("files", "scan", "scan", MINUTE, 10, 100, 3)])
    return shared


@pytest.mark.parametrize("path", READS)
def test_a_read_answers_what_the_command_line_prints(path: str, busy: Server) -> None:
    printed = busy.shell.ask(*READS[path])
    assert busy.client().get(path) == printed and printed


def test_the_orchestrators_status_is_the_same(busy: Server) -> None:
    printed = busy.shell.ask("orchestrator", "status", code=6)
    answered = busy.client().get("/api/v1/orchestrator")
    assert printed["settings"].pop("db") is None and answered["settings"].pop("db")
    assert answered["settings"].pop("http_port") == 0 and printed["settings"].pop("http_port") == 8356
    assert answered == printed
    assert answered["slots"] == busy.client().get("/api/v1/slots") == busy.client().get("/api/v1/info")["slots"]


@pytest.mark.parametrize("path", [path for path in READS if not path.startswith("/api/v1/slots")])
def test_an_answer_has_exactly_the_fields_of_its_type_in_their_order(path: str, busy: Server) -> None:
    (route,) = [each for each in ROUTES if each.method == "GET" and matches(each.path, path.partition("?")[0])][:1]
    answer = busy.client().get(path)
    msgspec.convert(answer, route.answer)
    shape: Any = route.answer.__args__[0] if isinstance(answer, list) else route.answer
    if shape is not nouns.Fact:
        for document in answer if isinstance(answer, list) else [answer]:
            assert list(document) == [name for name in shape.__struct_fields__ if name != "details"]


def test_details_come_where_they_are_asked_for(busy: Server) -> None:
    client = busy.client()
    for path, shape in (("jobs/1", nouns.JobDetails), ("workers?all=true", nouns.WorkerDetails)):
        told = client.get(f"/api/v1/{path}{'&' if '?' in path else '?'}details=true")
        document = told[0] if isinstance(told, list) else told
        assert tuple(document["details"]) == shape.__struct_fields__
        plain = client.get(f"/api/v1/{path}")
        assert {**document, "details": None} == {**(plain[0] if isinstance(plain, list) else plain), "details": None}


def matches(pattern: str, path: str) -> bool:
    ours, theirs = pattern.split("/"), path.split("/")
    return len(ours) == len(theirs) and all(
        a == b or (a == "{id}" and b.isdigit()) or (a == "{name}" and b == "nightly")
        for a, b in zip(ours, theirs, strict=True)
    )


def without_times(document: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from one call to the next."""
    passing = ("id", "token", "run_id", "job_id", "secret")
    return {name: value for name, value in document.items() if not name.endswith("_at") and name not in passing}


def test_the_verbs_answer_what_the_command_line_prints(server: Server) -> None:
    client, shell = server.client(), server.shell
    words: list[str | int] = [
        "--queue",
        "tag",
        "--kind",
        "label",
        "--payload",
        '{"a": [1]}',
        "--priority",
        2,
        "--max-attempts",
        1,
    ]
    body = {"queue": "tag", "kind": "label", "payload": {"a": [1]}, "priority": 2, "max_attempts": 1}
    printed, answered = shell.ask("add", "A", *words), client.post("/api/v1/jobs", title="A", **body)
    assert without_times(printed) == without_times(answered) and list(printed) == list(answered)

    worker = client.post("/api/v1/workers", name="loop", every=5)
    same = shell.ask("worker", "register", "--name", "loop", "--every", "5s")
    assert without_times(worker) == without_times(same)
    mine, theirs = worker["id"], same["id"]

    claimed = shell.ask("ready", "--claim", mine)
    taken = client.post("/api/v1/claims", worker_id=mine)
    assert [list(job) for job in claimed] == [list(job) for job in taken]
    assert list(claimed[0]["claim"]) == list(taken[0]["claim"])
    for job, ask in ((claimed[0], shell.ask), (taken[0], None)):
        id, token = job["id"], job["claim"]["token"]
        if ask:
            renewed, failed = ask("claim:renew", id, mine), ask("fail", id, "--error", "x", "--token", token)
            beat = ask("worker", "heartbeat", mine, "--cpu", 5)
        else:
            path = f"/api/v1/jobs/{id}/claim"
            assert without_times(client.post(f"{path}/renew", token=token)) == without_times(renewed)
            told = client.post(f"{path}/settle", token=token, outcome="failed", error="x")
            assert without_times(told) == without_times(failed)
            assert client.post(f"/api/v1/workers/{mine}/heartbeat", cpu=5) == beat
    assert client.post(f"/api/v1/jobs/{taken[0]['id']}/retry")["status"] == "ready"
    assert client.post("/api/v1/queues/pause", queue="tag") == {"paused": ["tag"]}
    assert client.post("/api/v1/queues/pause", queue="tag") == {"paused": []} == shell.ask("pause", "tag")
    assert client.post("/api/v1/queues/resume") == {"resumed": ["tag"]}
    assert client.post("/api/v1/orchestrator/reconcile", plan=True) == shell.ask("reconcile", "--plan")
    left = client.delete(f"/api/v1/workers/{mine}")
    assert left == {"id": mine, "released": 0} == {**shell.ask("worker", "deregister", theirs), "id": mine}


def test_the_other_verbs_do_what_they_say(server: Server) -> None:
    client = server.client()
    ids = client.post("/api/v1/jobs/bulk", jobs=[{"title": f"job {n}", "queue": "tag"} for n in range(5)])["ids"]
    assert ids == [1, 2, 3, 4, 5]
    assert client.post("/api/v1/jobs/2/block", on=1)["status"] == "blocked"
    assert client.post("/api/v1/jobs/2/unblock", on=1)["status"] == "ready"
    assert client.post("/api/v1/jobs/1/done", result=[1], force=True)["result"] == [1]
    assert client.post("/api/v1/jobs/2/fail", error="x", final=True, force=True)["status"] == "failed"
    assert client.post("/api/v1/jobs/3/cancel")["status"] == "cancelled"
    assert client.call("PATCH", "/api/v1/queues/tag", {"max_depth": 7, "rate": "100/s"}).json()["max_depth"] == 7
    limits = client.call("PATCH", "/api/v1/queues/tag", {"max_depth": None}).json()
    assert (limits["max_depth"], limits["rate"]) == (None, "100/s"), "what is left out stays"
    assert client.get("/api/v1/queues/tag") == limits
    assert client.post("/api/v1/queues/tag/scale", count=2) == {"queue": "tag", "count": 2, "crew": "main"}
    assert [slot["name"] for slot in client.get("/api/v1/slots")] == ["worker:tag:0", "worker:tag:1"]
    assert client.post("/api/v1/slots/worker:tag:1/reset", forget=True)["name"] == "worker:tag:1"
    assert [slot["name"] for slot in client.get("/api/v1/slots")] == ["worker:tag:0"]
    worker = client.post("/api/v1/workers", name="w")["id"]
    assert client.post(f"/api/v1/workers/{worker}/stop")["id"] == worker
    assert client.post(f"/api/v1/workers/{worker}/heartbeat")["advice"] == "stop"
    claim = client.post("/api/v1/jobs/4/claim", worker_id=worker, lease=60)
    assert client.post("/api/v1/jobs/4/claim/release", token=claim["token"], note="later")["note"] == "later"
    assert client.get(f"/api/v1/runs/{claim['run_id']}")["token"] == claim["token"]
    again = client.post("/api/v1/jobs/4/claim", worker_id=worker)
    with server.store() as store:
        store.sources.declare([Declared("files", "scan", "scan", MINUTE, 10, 100, 3)])
    assert client.get("/api/v1/sources") == [client.get("/api/v1/sources/files")]
    assert client.delete("/api/v1/sources/files") == {"name": "files", "jobs": 0}
    assert client.get("/api/v1/sources") == []
    snoozed = client.post("/api/v1/jobs/4/claim/settle", token=again["token"], outcome="snoozed", delay=60)
    assert snoozed["status"] == "scheduled"


def test_an_error_has_the_command_lines_code_and_changes_nothing(server: Server) -> None:
    client, shell = server.client(), server.shell
    id, worker = shell.add("A", "--queue", "tag"), client.post("/api/v1/workers", name="w")["id"]
    claim = client.post(f"/api/v1/jobs/{id}/claim", worker_id=worker)
    shell.say("queue", "set", "full", "--max-depth", 1), shell.add("B", "--queue", "full")
    server.token("taken", "read")
    settle = f"/api/v1/jobs/{id}/claim/settle"
    refusals: list[tuple[int, int, str, str, object]] = [
        (404, 3, "GET", "/api/v1/jobs/99", None),
        (404, 3, "GET", "/api/v1/workers/worker-00000000", None),
        (404, 3, "GET", "/api/v1/sources/nothing", None),
        (404, 3, "DELETE", "/api/v1/sources/nothing", None),
        (404, 3, "GET", f"/api/v1/workers/{worker}/certificate", None),
        (404, 3, "GET", f"/api/v1/runs/{claim['run_id']}", None),
        (409, 4, "POST", f"/api/v1/jobs/{id}/claim", {"worker_id": worker}),
        (409, 4, "POST", f"/api/v1/jobs/{id}/retry", {}),
        (412, 5, "POST", settle, {"token": claim["token"] + 1, "outcome": "done"}),
        (400, 2, "POST", settle, {"token": claim["token"], "outcome": "failed"}),
        (400, 2, "POST", settle, {"token": claim["token"], "outcome": "snoozed"}),
        (409, 6, "POST", "/api/v1/orchestrator/drain", {}),
        (429, 6, "POST", "/api/v1/jobs", {"title": "C", "queue": "full"}),
        (404, 7, "POST", "/api/v1/workers/worker-00000000/heartbeat", {}),
        (404, 7, "POST", "/api/v1/claims", {"worker_id": "worker-00000000"}),
        (409, 4, "POST", "/api/v1/tokens", {"name": "taken", "scopes": ["read"]}),
        (400, 2, "POST", "/api/v1/tokens", {"name": "local", "scopes": ["read"]}),
        (400, 2, "POST", "/api/v1/tokens", {"name": "local@elsewhere", "scopes": ["read"]}),
        (400, 2, "POST", f"/api/v1/jobs/{id}/block", {"on": id}),
        (400, 2, "PATCH", "/api/v1/queues/tag", {}),
    ]
    before = shell.contents()
    for status, code, method, path, body in refusals:
        assert client.refused(status, method, path, body)["code"] == code, path
    spoken = {name: before[name] for name in ("token", "worker")}  # when it was last used, when it last asked
    assert {**shell.contents(), **spoken} == before


def test_a_page_links_to_the_next_until_there_is_none(server: Server) -> None:
    client = server.client()
    client.post("/api/v1/jobs/bulk", jobs=[{"title": str(n)} for n in range(5)])
    seen, path = [], "/api/v1/jobs?limit=2&status=ready"
    while path:
        answer = client.call("GET", path)
        seen += [job["id"] for job in answer.json()]
        path = answer.links.get("next", {}).get("url", "")
    assert seen == [5, 4, 3, 2, 1]


def test_a_page_that_is_asked_for_is_waited_for_by_its_orchestrators(server: Server) -> None:
    """A wish that no orchestrator answers is refused, and names the one that did not."""
    client = server.client()
    client.post("/api/v1/jobs", title="A")
    with server.store() as store:
        store.orchestrators.join()
        problem = client.refused(409, "POST", "/api/v1/queues/pause", {"queue": "default"})
        assert "did not answer within 2s" in problem["detail"] and problem["code"] == 6
        assert store.queues.list()[0].paused_by == "local@http", "it is paused all the same"
        assert [each.host for each in store.orchestrators.live()] == [host_id()]


def test_a_queue_may_be_called_null(server: Server) -> None:
    server.shell.add("A", "--queue", "null"), server.shell.add("B", "--queue", "tag")
    assert [job["queue"] for job in server.client().get("/api/v1/jobs?queue=null")] == ["null"]


def test_settings_shown_have_no_password() -> None:
    from rota import documents

    shown = documents.settings(Settings(db="postgresql://me:secret@db.example/app"))["db"]
    assert shown == "postgresql://me@db.example/app"
    assert documents.settings(Settings(db="/a/b.db"))["db"] == "/a/b.db"
    tracking = documents.settings(Settings(tracking="postgresql://db.example/app?password=secret&sslmode=require"))[
        "tracking"
    ]
    assert tracking == "postgresql://db.example/app?sslmode=require"
