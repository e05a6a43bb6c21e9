"""An orchestrator without an app: it looks after what others start, and starts workers in other languages."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rota.app import App
from rota.core.job import NewJob
from rota.settings import Settings
from tests.support.crews import children, is_alive
from tests.support.eventually import eventually
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "examples" / "frames" / "worker.mjs"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """An empty folder."""
    shell = Shell(tmp_path)
    yield shell
    shell.call("orchestrator", "stop", "--now")
    shell.end()


def begin(shell: Shell, *words: str) -> int:
    """Start an orchestrator in the background; its pid."""
    pid: int = shell.ask("orchestrator", "start", "--no-http", "--daemon", *words)["pid"]
    return pid


def test_without_an_app_a_crew_stands_ready_and_watches_workers_that_others_start(shell: Shell) -> None:
    pid = begin(shell, "--workers", "3")
    eventually(lambda: shell.ask("orchestrator", "status")["status"] == "running")
    assert not [slot for slot in shell.ask("orchestrator", "status")["slots"] if slot["wanted"]]
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as loop:
        worker = shell.register("loop", "--every", "1h", "--pid", loop.pid)
        job = shell.add()
        shell.ask("claim", job, worker)
        assert shell.ask("show", job)["status"] == "active"
        loop.kill()
    eventually(lambda: shell.ask("show", job)["status"] != "active", within=30)
    assert shell.ask("worker", "list", "--all")[0]["status"] == "dead"
    shell.say("orchestrator", "stop")
    assert not is_alive(pid)


def test_a_pool_runs_workers_in_another_language_and_replaces_one_that_was_killed(shell: Shell) -> None:
    shutil.copy(EXAMPLE, shell.folder)
    pid = begin(shell, "--pool", "texts=2", "--program", "texts=node worker.mjs")
    with closing(App(str(shell.path), Settings())) as app:
        jobs = [
            NewJob("measure", queue="texts", kind="measure", payload={"text": "x" * n, "seconds": 0.01 * (n % 2)})
            for n in range(20)
        ]
        ids = [job.id for job in app.enqueue_many(jobs)]
        app.jobs.wait(ids, "done", 60_000_000)
        assert [app.jobs.get(id).result for id in ids] == [{"length": n} for n in range(20)]
        slow = app.enqueue(NewJob("slow", queue="texts", kind="measure", payload={"text": "slow", "seconds": 3})).id
        worker = eventually(lambda: app.jobs.get(slow).worker_id)
        victim = next(each.pid for each in app.workers.list() if each.id == worker)
        assert victim in children(pid)
        os.kill(victim or 0, signal.SIGKILL)
        bad = app.enqueue(NewJob("bad", queue="texts", kind="measure", max_attempts=1)).id
        app.jobs.wait([slow], "done", 60_000_000)
        assert [run.status for run in app.claims.runs(slow)] == ["expired", "completed"]
        app.jobs.wait([bad], "final", 60_000_000)
        assert "TypeError" in (app.jobs.get(bad).error or "")
    shell.say("orchestrator", "stop")
    assert not is_alive(pid)


def test_a_program_that_is_not_there_and_a_pool_without_one_are_told_at_once(shell: Shell) -> None:
    said = shell.refuse("orchestrator", "start", "--program", "tag=./no-such-program --fast", code=2)
    assert "there is no executable ./no-such-program" in said
    assert "there is no app to run" in shell.refuse("orchestrator", "start", "--pool", "tag=2", code=2)
    assert "write for example tag=" in shell.refuse("orchestrator", "start", "--program", "tag='", code=2)


def test_a_crew_whose_database_was_replaced_ends_rather_than_serve_what_nobody_sees(shell: Shell) -> None:
    pid = begin(shell)
    subprocess.run(["rm", "-rf", shell.folder / ".rota"], check=True)  # the crew removes files of its own meanwhile
    assert "made a new database" in shell.call("add", "one").stderr
    eventually(lambda: not is_alive(pid), within=60)
