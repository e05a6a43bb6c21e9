"""Backups: the steps of the guide, run as they are written, over a database that is in use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import apsw
import pytest

from rota.app import App
from rota.settings import Settings
from tests.docs.pages import ROOT, blocks
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.postgres import programs, shared
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
    env["PATH"] = f"{Path(sys.executable).parent}:{programs()}:{env['PATH']}"
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


class Producer:
    """Adds jobs all the time, one after another, on a connection of its own. `ids`: those that it was told are in."""

    def __init__(self, url: str) -> None:
        self.ids: list[int] = []
        self._app = App(url, Settings())
        self._is_over = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(0.005):  # so that the crew keeps up
            self.ids.append(self._app.enqueue(Crew.new("tag", n=len(self.ids))).id)

    def adds(self, more: int) -> None:
        """Wait until so many more are in."""
        wanted = len(self.ids) + more
        eventually(lambda: len(self.ids) >= wanted)

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._app.close()


def open_again(crew: Crew, **where: str) -> None:
    crew.app.close()
    crew.env |= where
    crew.app = App(crew.env.get("ROTA_DB") or str(crew.folder / ".rota" / "rota.db"), Settings())


def change_what_a_restore_undoes(crew: Crew, open_token: str) -> None:
    crew.app.store.tokens.revoke(open_token)
    crew.app.store.tokens.create("made since", ["read"])
    crew.app.store.queues.set("tag", max_depth=1_000_000)


def is_undone(crew: Crew, open_token: str) -> None:
    """Tokens and limits are as they were, and the log ends there."""
    assert [(token.id, token.revoked_at) for token in crew.app.store.tokens.list()] == [(open_token, None)]
    assert crew.app.store.queues.get("tag").max_depth is None
    assert crew.facts("token", "create") and not crew.facts("token", "revoke")


@pytest.mark.parametrize("kind", STORES)
def test_a_backup_of_a_store_that_works_hard_is_whole_and_goes_on_where_it_was(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer adds and a crew works all the while, and one job is in hand from before the backup until after it.

    What was accepted before it began is there, what was added after it ended is gone, and what was done by then stays
    so; what was done later runs again. No id or token of the lost time comes again.
    """
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with shared().database() as url, shared().database() as another, ExitStack() as stack:
        where, elsewhere = ({"ROTA_DB": url}, {"ROTA_DB": another}) if kind == "postgres" else ({}, {})
        crew = Crew(tmp_path, **where)
        stack.callback(crew.end)
        producer = Producer(crew.app.store.database.url)
        stack.callback(producer.end)
        crew.start("tag=3")
        held = crew.add("hold", name="a")
        eventually(lambda: crew.held_by("a") and len(crew.ledger()) > 20)
        open_token = crew.app.store.tokens.create("open", ["read"])[0].id
        before = list(producer.ids)
        follow(f"{kind}-backup", Shell(tmp_path, **where, XDG_RUNTIME_DIR=str(tmp_path)))
        meanwhile = len(producer.ids)
        assert meanwhile > len(before), "nobody waits for a backup"

        change_what_a_restore_undoes(crew, open_token)
        producer.adds(50)
        producer.end()
        lost = producer.ids[meanwhile + 1 :]  # what came before them may have begun before it ended
        crew.let_go("a")
        crew.done(held, *producer.ids)
        highest = max(run.token for id in lost for run in crew.app.claims.runs(id))
        assert crew.stop() == 0

        follow(f"{kind}-restore", Shell(tmp_path, **elsewhere, XDG_RUNTIME_DIR=str(tmp_path)))
        open_again(crew, **elsewhere)
        there = {job.id: job.status for job in crew.app.jobs.list(limit=1_000_000)}
        assert there.keys() >= {held, *before} and there.keys().isdisjoint(lost)
        assert there[held] != "done" and "done" in there.values()
        is_undone(crew, open_token)

        crew.start("tag=2")
        eventually(lambda: left_to_do(crew) == 0, within=60)
        assert {crew.app.jobs.get(id).status for id in there} == {"done"}
        ran = Counter(crew.ledger())
        for n, id in enumerate(producer.ids):
            assert ran[str(n)] == (2 if there.get(id, "done") != "done" else 1), there.get(id)
        assert len([line for line in ran if line.startswith("hold a")]) == 2, "what was in hand runs again"
        assert [run.verb for run in crew.app.claims.runs(held)] == ["die", "finish"]
        assert crew.app.jobs.get(held).attempts == 2, "which spent an attempt"
        (new,) = crew.done(crew.add("tag", n=-1))
        assert new.id > max(lost) and crew.app.claims.runs(new.id)[0].token > highest
        assert crew.stop() == 0
