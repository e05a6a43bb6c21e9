"""Backups: the steps of the guide, run as they are written, over a database that is in use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from rota.app import App
from rota.demo.server import binaries
from rota.settings import Settings
from tests.docs.pages import ROOT, blocks
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.postgres import shared
from tests.support.shell import Shell, environment
from tests.support.stores import STORES

if TYPE_CHECKING:
    from collections.abc import Iterator

GUIDE = ROOT / "docs/howto/backups.md"
ADDING = "i=0; while i=$((i+1)); do rota add job-$i >/dev/null; done"


def follow(step: str, shell: Shell) -> None:
    """Do what the guide says."""
    (script,) = blocks(GUIDE, "bash", step)
    env = environment(**shell.env)
    env["PATH"] = f"{Path(sys.executable).parent}:{binaries()}:{env['PATH']}"
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=shell.folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def on_server(tmp_path: Path) -> Iterator[Shell]:
    with shared().database() as url:
        yield Shell(tmp_path, ROTA_DB=url, XDG_RUNTIME_DIR=str(tmp_path))


def claim_and_lose(shell: Shell) -> tuple[int, int]:
    """The last of some claims that the backup does not know: the job and its token."""
    worker = shell.register()
    job = shell.ask("ready", "--limit", 1)[0]["id"]
    for _ in range(3):
        shell.say("claim", job, worker)
        shell.say("claim:release", job, worker)
    return job, shell.ask("claim", job, worker)["token"]


def fences(shell: Shell, job: int, token: int) -> None:
    """The number of the lost claim is not given out again, so its holder is refused."""
    worker = shell.register("another")
    assert shell.ask("claim", job, worker)["token"] > token
    shell.refuse("done", job, "--token", token, code=5)
    assert shell.ask("show", job)["status"] == "active"


def test_a_file_is_copied_while_others_write_and_restored_as_it_was(shell: Shell) -> None:
    shell.say("init")
    env = {**environment(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with subprocess.Popen(["bash", "-c", ADDING], cwd=shell.folder, env=env, start_new_session=True) as adding:
        try:
            eventually(lambda: len(shell.ask("list", "--limit", 9999)) >= 3)
            follow("sqlite-backup", shell)
            copied = len(shell.ask("list", "--limit", 9999, "--db", "copy.db"))
            eventually(lambda: len(shell.ask("list", "--limit", 9999)) > copied)
        finally:
            subprocess.run(["kill", "-KILL", "--", f"-{adding.pid}"], check=True)
    assert copied >= 3
    job, token = claim_and_lose(shell)

    follow("sqlite-restore", shell)

    assert len(shell.ask("list", "--limit", 9999)) == copied
    with apsw.Connection(str(shell.path)) as restored:
        assert restored.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    assert shell.path.stat().st_mode & 0o077 == 0
    fences(shell, job, token)


def test_a_schema_is_dumped_and_restored_into_an_empty_database(on_server: Shell, tmp_path: Path) -> None:
    on_server.add("one", "--key", "one")
    on_server.add("two")
    follow("postgres-backup", on_server)
    on_server.add("three")
    job, token = claim_and_lose(on_server)

    with shared().database() as url:
        restored = Shell(tmp_path, **{**on_server.env, "ROTA_DB": url})
        follow("postgres-restore", restored)
        assert [each["title"] for each in restored.ask("list")] == ["two", "one"]
        assert restored.add("one", "--key", "one") == 1, "a key that is there adds nothing"
        assert restored.add("four") > 2
        assert "add" in restored.say("events", "--after", "0")
        fences(restored, job, token)


def left_to_do(crew: Crew) -> int:
    return sum(status.counts[state] for status in crew.app.queues.list() for state in ("ready", "active", "scheduled"))


@pytest.mark.parametrize("kind", STORES)
def test_a_backup_of_a_store_that_works_hard_is_whole_and_goes_on_where_it_was(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was accepted before the backup began is there, done or to be done; no token of the lost time comes again."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with shared().database() as url, shared().database() as another:
        where = {"ROTA_DB": url} if kind == "postgres" else {}
        crew = Crew(tmp_path, **where)
        try:
            before = [crew.add("tag", n=n) for n in range(300)]
            crew.start("tag=2")
            eventually(lambda: crew.app.queues.list()[0].counts["done"] > 10)
            follow(f"{kind}-backup", Shell(tmp_path, **where, XDG_RUNTIME_DIR=str(tmp_path)))
            lost = [crew.add("tag", n=n) for n in range(1000, 1050)]
            crew.done(*before, *lost)
            highest = max(run.token for id in lost for run in crew.app.claims.runs(id))
            crew.stop()
            restored = {"ROTA_DB": another} if kind == "postgres" else {}
            crew.app.close()
            follow(f"{kind}-restore", Shell(tmp_path, **restored, XDG_RUNTIME_DIR=str(tmp_path)))
            crew.env |= restored
            crew.app = App(crew.env.get("ROTA_DB") or str(tmp_path / ".rota" / "rota.db"), Settings())
            assert {job.id for job in crew.app.jobs.list(limit=1000)} >= set(before)
            crew.start("tag=2")
            eventually(lambda: left_to_do(crew) == 0, within=60)
            assert {crew.app.jobs.get(id).status for id in before} == {"done"}
            (new,) = crew.done(crew.add("tag", n=1))
            assert new.id > max(lost) and crew.app.claims.runs(new.id)[0].token > highest
            assert crew.stop() == 0
        finally:
            crew.end()
