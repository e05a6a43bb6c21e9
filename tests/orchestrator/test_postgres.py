"""A crew on PostgreSQL: jobs are done, a killed worker's job runs again, a stop leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.core.job import NewJob
from rota.core.times import SECOND
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.postgres import with_parts
from tests.support.stores import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    url = url_of("postgres", tmp_path)
    crew = Crew(tmp_path, ROTA_DB=url, ROTA_RESTART_BACKOFF="50ms", PGAPPNAME=tmp_path.name)
    yield crew
    crew.end()


def test_a_crew_works_a_queue_off_and_a_killed_workers_job_runs_again(crew: Crew) -> None:
    jobs = crew.app.enqueue_many([crew.new("tag", n=n) for n in range(30)])
    crew.start()
    for job in jobs:
        assert job.wait(60).status == "done"
    assert sorted(crew.ledger()) == sorted(str(n) for n in range(30))
    held = crew.add("hold", name="a")
    first = eventually(lambda: crew.held_by("a"), within=60)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: crew.held_by("a") not in (0, first), within=60)
    crew.let_go("a")
    (done,) = crew.app.jobs.wait([held], "done", 60 * SECOND)
    assert [run.verb for run in crew.app.claims.runs(done.id)] == ["die", "finish"]
    assert crew.stop() == 0
    assert crew.app.workers.list() == [] == crew.processes()


def test_a_killed_orchestrators_worker_finishes_alone_and_the_next_orchestrator_takes_over(crew: Crew) -> None:
    alone, adopted = crew.add("hold", name="a"), crew.add("hold", name="b")
    crew.start()
    eventually(lambda: crew.held_by("a") and crew.held_by("b"), within=60)
    first, second = map(crew.held_by, "ab")
    crew.stop(signal.SIGKILL)
    crew.let_go("a")
    assert crew.done(alone)[0].result == first
    crew.start()
    eventually(lambda: [each.pid for each in crew.app.store.orchestrators.live()] == [crew.pid], within=60)
    crew.let_go("b")
    assert crew.done(adopted)[0].result == second
    assert [run.verb for id in (alone, adopted) for run in crew.app.claims.runs(id)] == ["finish", "finish"]
    assert crew.stop() == 0
    eventually(lambda: crew.processes() == [], within=60)
    assert crew.app.workers.list() == []


def test_a_crew_whose_connections_break_again_and_again_runs_every_job_once(crew: Crew) -> None:
    crew.start("tag=4")
    jobs = [crew.add("tag", n=n) for n in range(10)]
    eventually(crew.ledger, within=60)
    for turn in range(1, 6):
        cut_all(crew)
        jobs += [crew.add("tag", n=n) for n in range(10 * turn, 10 * turn + 10)]
    crew.done(*jobs)
    assert sorted(crew.ledger(), key=int) == [str(n) for n in range(60)]
    assert [run.verb for job in jobs for run in crew.app.claims.runs(job)] == ["finish"] * 60
    assert crew.stop() == 0


def cut_all(crew: Crew) -> None:
    """End every connection of the crew at the server, once it has any."""
    with psycopg.connect(crew.env["ROTA_DB"].partition("?")[0], autocommit=True) as connection:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        eventually(lambda: connection.execute(cut, [crew.env["PGAPPNAME"]]).fetchall(), within=60)


def test_a_daemon_logs_to_a_folder_of_this_host_and_never_shows_its_url(crew: Crew) -> None:
    started = json.loads(
        crew.call("orchestrator", "start", "--app", "shop:app", "--pool", "tag=1", "--daemon", "--no-http", "--json")
    )
    try:
        url, beside = crew.app.store.database.url, crew.app.store.database.beside
        assert os.path.dirname(started["log"]) == os.path.dirname(beside)
        assert url.encode() not in Path(f"/proc/{started['pid']}/cmdline").read_bytes(), "it may hold a password"
        assert crew.done(crew.add("tag", n=1))[0].result == 1
        assert f"pid {started['pid']}" in crew.call("orchestrator", "status")
        crew.call("orchestrator", "start", "--app", "shop:app", code=4)
    finally:
        crew.call("orchestrator", "stop")
    assert crew.processes() == []


def test_what_a_command_wrote_is_kept_beside_the_runtime_files_shown_and_pruned(crew: Crew) -> None:
    script = "echo from {title}; echo aside >&2; while [ ! -e go-$0 ]; do sleep 0.02; done; echo over"
    crew.begin("worker", "exec", "--queue", "q", "--", "sh", "-c", script, "{title}")
    id = crew.app.enqueue(NewJob("a", queue="q")).id
    kept = Path(crew.app.store.database.runs)
    eventually(lambda: [path for path in kept.glob("*") if path.read_text() == "from a\n"], within=60)
    assert kept.parent == crew.folder / "rota" and kept.stat().st_mode & 0o77 == 0
    assert crew.call("logs", str(id)) == "from a\n", "also while it runs"
    crew.let_go("a")
    crew.done(id)
    assert crew.call("logs", str(id), "--follow") == "from a\nover\n"
    assert crew.call("logs", str(id), "--stderr") == "aside\n"
    assert crew.stop() == 0
    crew.call("prune", "--older", "0s")
    assert list(kept.iterdir()) == []
    crew.call("logs", str(id), code=3)


def test_a_second_orchestrator_is_refused_however_the_url_is_spelt_and_wherever_its_files_are(crew: Crew) -> None:
    """Each spelling is found by `status` and ended by `stop`; a lock elsewhere is no excuse either."""
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    database, _, schema = crew.env["ROTA_DB"].partition("?")
    plain = with_parts(database, host="localhost")
    again = f"{plain}?application_name=other&{schema}&connect_timeout=7"
    daemon = ("orchestrator", "start", "--app", "shop:app", "--pool", "tag=1", "--no-http", "--daemon")
    assert f"is running already, pid {crew.pid}" in crew.call(*daemon, "--db", again, code=4)
    assert f"running, pid {crew.pid}" in crew.call("orchestrator", "status", "--db", again)
    (crew.folder / "other").mkdir()
    crew.env["XDG_RUNTIME_DIR"] = str(crew.folder / "other")
    for words in (daemon, (*daemon, "--db", again)):
        assert f"is running already, pid {crew.pid}" in crew.call(*words, code=4)
    beside = crew.start_beside(ROTA_DB=again)
    eventually(lambda: crew.up(2))
    named = ("worker", "start", "--app", "shop:app", "--name", "beside")
    assert f"running already, pid {beside.pid}" in crew.call(*named, code=4)
    crew.env["XDG_RUNTIME_DIR"] = str(crew.folder)
    assert f"orchestrator {crew.pid} stopped" in crew.call("orchestrator", "stop", "--db", again)
    assert crew.wait() == 0


def test_the_place_of_a_killed_orchestrator_is_free_at_once_also_for_one_with_other_files(crew: Crew) -> None:
    crew.start("tag=1")
    eventually(lambda: crew.up(1))
    crew.stop(signal.SIGKILL)
    (crew.folder / "other").mkdir()
    crew.env["XDG_RUNTIME_DIR"] = str(crew.folder / "other")
    crew.start("tag=1")
    eventually(lambda: [each.pid for each in crew.app.store.orchestrators.live()] == [crew.pid], within=60)
    assert crew.stop() == 0
