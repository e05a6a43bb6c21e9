"""A host that reaches only the API: `run_worker`, `App` and a bash loop over HTTP, through the API's death."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rota import App
from rota.core.errors import BadInput
from rota.core.job import NewJob
from tests.api.servers import Server
from tests.e2e.yard import Yard
from tests.support.eventually import eventually
from tests.support.stores import STORES
from tests.worker.inprocess.workshop import Script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORK = """
def execute(job, ctx):
    note(f"start {job.id}")
    ctx.progress(1, 2, "half")
    ctx.checkpoint = {"page": 1}
    if job.title == "slow":
        wait_for("go")
    return {"path": job.payload["path"]}

rota.run_worker(execute, capture_io=lambda run, job: {"transcript_path": f"{run}.txt"}, name="far")
"""


@pytest.fixture(params=STORES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", kind=request.param)
    yield server
    server.end()


@pytest.fixture
def far(tmp_path: Path) -> Path:
    """A folder from which no database is in sight."""
    (tmp_path / "far").mkdir()
    return tmp_path / "far"


def reach(server: Server) -> dict[str, str]:
    return {"ROTA_DB": server.url, "ROTA_TOKEN": server.secret}


def notes(far: Path) -> list[str]:
    return (far / "ledger").read_text().splitlines() if (far / "ledger").exists() else []


@pytest.mark.both_stores
def test_run_worker_works_over_http_and_outlives_the_api(server: Server, far: Path) -> None:
    server._env["ROTA_HTTP_PORT"] = server.url.rpartition(":")[2]
    with server.store() as store:
        ids = store.jobs.add_many([NewJob(title, payload={"path": title}) for title in ("quick", "slow", "last")])
        script = Script(far, WORK, 0, {**reach(server), "ROTA_HEARTBEAT_INTERVAL": "500ms"})
        try:
            eventually(lambda: f"start {ids[1]}" in notes(far), within=30)
            (worker,) = store.workers.list()
            assert (worker.name, worker.pid, worker.hostname) == ("far", script.pid, os.uname().nodename)
            eventually(lambda: store.workers.get(worker.id).metadata.get("progress"), within=10)
            assert server.process is not None
            server.process.kill()
            server.process.wait()
            (far / "go").touch()
            server.start()
            eventually(lambda: all(store.jobs.get(id).status == "done" for id in ids), within=60)
            script.signal(signal.SIGTERM)
            assert script.ended() == 0, script.said
        finally:
            script.end()
        assert notes(far) == [f"start {id}" for id in ids], "each ran once"
        job = store.jobs.get(ids[1])
        assert (job.result, job.checkpoint) == ({"path": "slow"}, {"page": 1})
        (run,) = store.claims.runs(ids[1])
        assert run.transcript_path == str(far / f"{run.id}.txt")
        assert store.workers.get(run.worker_id).status == "stopped"


def test_an_app_over_http_is_an_app(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_TOKEN", server.secret)
    app = App(server.url)

    @app.task("tag", max_attempts=2)
    def label(path: str) -> None: ...

    try:
        first = label.enqueue(path="a.wav")
        rest = app.enqueue_many(label.job(path=name) for name in ("b", "c"))
        assert [each.id for each in (first, *rest)] == [1, 2, 3]
        assert app.jobs.get(1).payload == {"path": "a.wav"} and app.jobs.get(1).max_attempts == 2
        feed = app.events(["queue:jobs"], "0")
        assert [next(feed)["job"]["id"] for _ in range(3)] == [1, 2, 3]
        server.shell.say("done", 2, "--force")
        assert next(feed)["job"]["status"] == "done"
        assert app.queues.list()[0].counts["ready"] == 2 and app.reconcile().dead_workers_found == 0
        with pytest.raises(BadInput, match="behind an HTTP API"):
            app.enqueue(NewJob("A"), connection=object())  # type: ignore[call-overload]
    finally:
        app.close()


def test_the_feed_goes_on_where_it_was_when_the_api_is_back(server: Server, far: Path) -> None:
    server._env["ROTA_HTTP_PORT"] = server.url.rpartition(":")[2]
    code = """
app = rota.App()
for event in app.events(["queue:jobs"]):
    note(event["job"]["id"])
"""
    script = Script(far, code, 0, reach(server))
    try:
        server.shell.add()
        eventually(lambda: [server.shell.add(), notes(far)][1], within=30)
        last = server.shell.add()
        eventually(lambda: str(last) in notes(far))
        assert server.process is not None
        server.process.kill()
        server.process.wait()
        missed = server.shell.add()
        server.start()
        after = server.shell.add()
        eventually(lambda: notes(far)[-2:] == [str(missed), str(after)], within=30)
        assert len(notes(far)) == len(set(notes(far))), "none is told twice"
    finally:
        script.end()


def test_a_bash_loop_works_over_http(server: Server, far: Path) -> None:
    yard = Yard(far, **reach(server), ROTA_HEARTBEAT_INTERVAL="2s")
    try:
        jobs = yard.add("quick", "quick")
        yard.start("minimal")
        eventually(lambda: all(job["status"] == "done" for job in yard.rota("list")), within=60)
        assert sorted(yard.starts()) == jobs
        for job in jobs:
            assert [run["status"] for run in yard.rota("runs", str(job))] == ["completed"]
    finally:
        yard.close()


def test_a_program_that_only_talks_to_an_api_loads_no_database(server: Server, far: Path) -> None:
    code = "rota.App().jobs.list(); note({'apsw', 'psycopg'} & set(sys.modules))"
    script = Script(far, code, 0, reach(server))
    assert script.ended() == 0, script.said
    assert notes(far) == ["set()"]
