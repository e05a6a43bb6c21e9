"""Who may do what: every route with every scope, and workers' tokens that act for their own workers only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rota.api.app import ROUTES
from rota.api.credentials import local_secret
from rota.core.access import SCOPES
from rota.core.errors import NotFound
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from rota.api.route import Route
    from tests.api.servers import Client, Server

OPEN = {"/healthz", "/readyz", "/metrics", "/api/v1/info", "/api/v1/clock"}
PUBLIC = {"/open", "/assets/{file}"}
# Every route and the scope that it needs, said once more here: a route that is moved to a weaker one is a decision.
NEEDS: dict[str, str | None] = {
    "GET /api/v1/clock": None,
    "GET /api/v1/info": None,
    "GET /assets/{file}": None,
    "GET /healthz": None,
    "GET /metrics": None,
    "GET /open": None,
    "GET /readyz": None,
    "GET /": "read",
    "GET /api/v1/attention": "read",
    "POST /api/v1/codes": "read",
    "GET /api/v1/deaths": "read",
    "GET /api/v1/events": "read",
    "GET /api/v1/events/log": "read",
    "GET /api/v1/events/raw": "read",
    "GET /api/v1/jobs": "read",
    "GET /api/v1/jobs/ready": "read",
    "GET /api/v1/jobs/{id}": "read",
    "GET /api/v1/jobs/{id}/graph": "read",
    "GET /api/v1/jobs/{id}/output": "read",
    "GET /api/v1/jobs/{id}/results": "read",
    "GET /api/v1/jobs/{id}/runs": "read",
    "GET /api/v1/jobs/{id}/why": "read",
    "GET /api/v1/me": "read",
    "GET /api/v1/openapi.json": "read",
    "GET /api/v1/orchestrator": "read",
    "GET /api/v1/pace": "read",
    "GET /api/v1/queues": "read",
    "GET /api/v1/queues/{name}": "read",
    "GET /api/v1/runs/{id}": "read",
    "GET /api/v1/schedules": "read",
    "GET /api/v1/schedules/{name}": "read",
    "GET /api/v1/slots": "read",
    "GET /api/v1/slots/{name}/why": "read",
    "GET /api/v1/sources": "read",
    "GET /api/v1/sources/{name}": "read",
    "GET /api/v1/tracking": "read",
    "GET /api/v1/workers": "read",
    "GET /api/v1/workers/{id}": "read",
    "GET /api/v1/workers/{id}/certificate": "read",
    "GET /api/v1/workers/{id}/jobs": "read",
    "POST /api/v1/jobs": "enqueue",
    "POST /api/v1/jobs/bulk": "enqueue",
    "POST /api/v1/schedules/{name}/run": "enqueue",
    "POST /api/v1/claims": "work",
    "POST /api/v1/jobs/{id}/claim": "work",
    "POST /api/v1/jobs/{id}/claim/capture": "work",
    "POST /api/v1/jobs/{id}/claim/checkpoint": "work",
    "POST /api/v1/jobs/{id}/claim/release": "work",
    "POST /api/v1/jobs/{id}/claim/renew": "work",
    "POST /api/v1/jobs/{id}/claim/results": "work",
    "POST /api/v1/jobs/{id}/claim/settle": "work",
    "POST /api/v1/orchestrators": "work",
    "DELETE /api/v1/orchestrators/{id}": "work",
    "GET /api/v1/orchestrators/{id}": "work",
    "GET /api/v1/orchestrators/{id}/bell": "work",
    "POST /api/v1/orchestrators/{id}/burials": "work",
    "POST /api/v1/orchestrators/{id}/certificates": "work",
    "POST /api/v1/orchestrators/{id}/ends": "work",
    "POST /api/v1/orchestrators/{id}/exchange": "work",
    "POST /api/v1/orchestrators/{id}/lease": "work",
    "POST /api/v1/orchestrators/{id}/look": "work",
    "POST /api/v1/orchestrators/{id}/schedules": "work",
    "POST /api/v1/orchestrators/{id}/show": "work",
    "POST /api/v1/orchestrators/{id}/slots": "work",
    "POST /api/v1/orchestrators/{id}/take-over": "work",
    "POST /api/v1/orchestrators/{id}/worker-ids": "work",
    "POST /api/v1/orchestrators/{id}/workers": "work",
    "POST /api/v1/workers": "work",
    "DELETE /api/v1/workers/{id}": "work",
    "POST /api/v1/workers/{id}/heartbeat": "work",
    "POST /api/v1/workers/{id}/orphan/begin": "work",
    "POST /api/v1/workers/{id}/orphan/end": "work",
    "POST /api/v1/workers/{id}/orphan/renew": "work",
    "POST /api/v1/workers/{id}/orphan/report": "work",
    "POST /api/v1/jobs/{id}/block": "admin",
    "POST /api/v1/jobs/{id}/cancel": "admin",
    "POST /api/v1/jobs/{id}/done": "admin",
    "POST /api/v1/jobs/{id}/fail": "admin",
    "POST /api/v1/jobs/{id}/retry": "admin",
    "POST /api/v1/jobs/{id}/snooze": "admin",
    "POST /api/v1/jobs/{id}/unblock": "admin",
    "POST /api/v1/orchestrator/drain": "admin",
    "POST /api/v1/orchestrator/reconcile": "admin",
    "POST /api/v1/prune": "admin",
    "POST /api/v1/queues/pause": "admin",
    "POST /api/v1/queues/resume": "admin",
    "PATCH /api/v1/queues/{name}": "admin",
    "POST /api/v1/queues/{name}/scale": "admin",
    "POST /api/v1/schedules": "admin",
    "DELETE /api/v1/schedules/{name}": "admin",
    "POST /api/v1/schedules/{name}/pause": "admin",
    "POST /api/v1/schedules/{name}/resume": "admin",
    "POST /api/v1/slots/{name}/reset": "admin",
    "DELETE /api/v1/sources/{name}": "admin",
    "GET /api/v1/tokens": "admin",
    "POST /api/v1/tokens": "admin",
    "DELETE /api/v1/tokens/{id}": "admin",
    "POST /api/v1/workers/{id}/stop": "admin",
}
EXAMPLES = {"id": "worker-00000000", "name": "tag", "file": "icon-000000000000.svg"}


@pytest.fixture(scope="module")
def clients(shared: Server) -> dict[str, Client]:
    return {scope: shared.client(shared.token(scope, scope)) for scope in SCOPES}


def path_of(route: Route) -> str:
    path = route.path.replace("/jobs/{id}", "/jobs/1")
    return re.sub(r"{(\w+)}", lambda found: EXAMPLES[found[1]], path)


def status(client: Client, route: Route) -> int:
    """The status of a request to this route, the answer itself left unread."""
    body: dict[str, object] | None = {} if route.body is not None else None
    with client.http.stream(route.method, path_of(route), json=body) as answer:
        return answer.status_code


def test_every_route_needs_the_scope_that_it_is_said_to_need() -> None:
    assert {f"{route.method} {route.path}": route.scope for route in ROUTES} == NEEDS
    assert len(ROUTES) == len(NEEDS), "none is there twice"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_opens_to_its_scope_and_to_no_other(route: Route, shared: Server, clients: dict[str, Client]) -> None:
    needed = NEEDS[f"{route.method} {route.path}"]
    if needed is None:
        assert route.path in OPEN or (route.path in PUBLIC and route.public)
        assert status(shared.stranger(), route) not in (403, 405, 500)
        return
    assert needed in SCOPES and not route.public
    assert status(shared.stranger(), route) == 401
    assert status(shared.client("rota_00000000_0000"), route) == 401
    for scope, client in clients.items():
        found = status(client, route)
        if scope in (needed, "admin"):
            assert found not in (401, 403, 405, 500), (scope, found)
        else:
            assert found == 403, (scope, found)


def test_what_is_open_is_open_to_this_machine_alone(shared: Server) -> None:
    for path in sorted(OPEN):
        assert shared.stranger().call("GET", path).status_code == 200
        for header in ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"):
            assert shared.stranger(**{header: "10.0.0.9"}).refused(401, "GET", path)["code"] == 6
        assert shared.client(**{"X-Forwarded-For": "10.0.0.9"}).call("GET", path).status_code == 200


def test_a_workers_token_acts_for_the_workers_that_it_registered_and_for_no_other(server: Server) -> None:
    mine = server.client(server.token("mine", "work"))
    other = server.client(server.token("other", "work"))
    for _ in range(2):
        server.shell.add()
    worker = mine.post("/api/v1/workers", name="loop")["id"]
    (job,) = mine.post("/api/v1/claims", worker_id=worker)
    id, token = job["id"], job["claim"]["token"]

    for path, body in (
        ("/api/v1/claims", {"worker_id": worker}),
        (f"/api/v1/jobs/{id + 1}/claim", {"worker_id": worker}),
        (f"/api/v1/jobs/{id}/claim/renew", {"token": token}),
        (f"/api/v1/jobs/{id}/claim/release", {"token": token}),
        (f"/api/v1/jobs/{id}/claim/settle", {"token": token, "outcome": "done"}),
        (f"/api/v1/jobs/{id}/claim/checkpoint", {"token": token, "value": 1}),
        (f"/api/v1/jobs/{id}/claim/capture", {"token": token, "transcript_path": "/tmp/x", "stderr_path": None}),
        (f"/api/v1/workers/{worker}/heartbeat", {}),
    ):
        assert f"may not act for {worker}" in other.refused(403, "POST", path, body)["detail"]
    other.refused(403, "DELETE", f"/api/v1/workers/{worker}")
    assert server.shell.ask("show", id)["status"] == "active", "nothing was changed"
    assert server.shell.ask("worker", "list")[0]["id"] == worker

    settled = mine.post(f"/api/v1/jobs/{id}/claim/settle", token=token, outcome="done", result={"tags": 3})
    assert settled["status"] == "done" and settled["result"] == {"tags": 3}
    other.refused(403, "POST", f"/api/v1/jobs/{id}/claim/settle", {"token": token, "outcome": "done"})
    assert mine.post(f"/api/v1/jobs/{id}/claim/settle", token=token, outcome="done") == settled, "once more is no error"


def test_a_worker_of_the_command_line_is_nobodys_but_an_admins(server: Server) -> None:
    worker, id = server.shell.register(), server.shell.add()
    body = {"worker_id": worker}
    server.client(server.token("w", "work")).refused(403, "POST", f"/api/v1/jobs/{id}/claim", body)
    claim = server.client().post(f"/api/v1/jobs/{id}/claim", **body)
    assert claim["worker_id"] == worker


def test_every_change_is_told_in_the_name_of_its_token(server: Server) -> None:
    server.client(server.token("night-shift", "enqueue")).post("/api/v1/jobs", title="A")
    assert server.shell.ask("events")[-1]["actor"] == "night-shift@http"
    server.client().post("/api/v1/queues/pause", queue="default", reason="a new model")
    assert server.shell.ask("queue", "list")[0]["paused_by"] == "local@http"


def test_a_revoked_token_opens_nothing_and_a_used_one_says_when(server: Server) -> None:
    client = server.client(server.token("short", "read"))
    client.get("/api/v1/jobs")
    (listed,) = [token for token in server.client().get("/api/v1/tokens") if token["name"] == "short"]
    server.client().delete(f"/api/v1/tokens/{listed['id']}")
    assert "needs an access token" in client.refused(401, "GET", "/api/v1/jobs")["detail"]
    eventually(
        lambda: next(each["last_used_at"] for each in server.shell.ask("token", "list") if each["name"] == "short")
    )


def test_the_secret_of_an_api_that_never_ran_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has never run here"):
        local_secret(str(tmp_path / "rota.db"))
