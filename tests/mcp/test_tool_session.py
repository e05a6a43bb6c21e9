"""A session of `rota mcp` is a worker: its claims are renewed while it lives, and back however it ends."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rota.app import App
from rota.core.times import format_instant
from rota.settings import Settings
from tests.mcp.client import Caller, converse, pid_of
from tests.support.eventually import eventually
from tests.support.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crew

QUICK = {"ROTA_HEARTBEAT_INTERVAL": "300ms"}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    made.make()
    return made


def test_a_claim_is_renewed_while_the_session_lives(shell: Shell) -> None:
    id = shell.add("Long")

    async def talk(rota: Caller) -> None:
        claimed = (await rota("claim"))["claim"]
        until = eventually(lambda: _renewed(shell, id, 4))
        assert until > claimed["lease_expires_at"], "it outlived the lease it was claimed with"
        assert shell.ask("reconcile")["expired_claims_released"] == 0
        (worker,) = shell.ask("worker", "list")
        assert (worker["name"], worker["status"], worker["current_job"]) == ("mcp", "busy", id)
        await rota("renew", job_id=id)
        await rota("finish", job_id=id)

    converse(shell, talk, "--lease", "1s")
    assert shell.ask("runs", id)[0]["renewed_count"] >= 4


def _renewed(shell: Shell, id: int, times: int) -> str:
    """Until when the claim lasts, once it was renewed so often."""
    app = App(str(shell.path), Settings())
    job = app.jobs.get(id)
    app.close()
    return format_instant(job.lease_expires_at or 0) if job.renewed_count >= times else ""


def test_the_end_of_the_client_gives_back_what_is_held(shell: Shell) -> None:
    id = shell.add("Long")

    async def talk(rota: Caller) -> None:
        await rota("claim")
        assert shell.ask("show", id)["status"] == "active"

    converse(shell, talk)
    job = shell.ask("show", id)
    assert (job["status"], job["attempts"]) == ("ready", 0)
    assert shell.ask("worker", "list") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_gives_back_what_is_held(shell: Shell, number: signal.Signals) -> None:
    id = shell.add("Long")

    async def talk(rota: Caller) -> None:
        await rota("claim")
        os.kill(pid_of(shell, "mcp"), number)
        eventually(lambda: shell.ask("show", id)["status"] == "ready")

    converse(shell, talk)
    assert shell.ask("show", id)["attempts"] == 0 and shell.ask("worker", "list") == []


def test_a_killed_session_lapses(shell: Shell) -> None:
    id = shell.add("Long")

    async def talk(rota: Caller) -> None:
        await rota("claim")
        # Without a heartbeat since the claim its lease alone would decide.
        before = shell.ask("worker", "list")[0]["heartbeat_count"]
        eventually(lambda: shell.ask("worker", "list")[0]["heartbeat_count"] > before)
        os.kill(pid_of(shell, "mcp"), signal.SIGKILL)
        eventually(lambda: shell.ask("reconcile") and shell.ask("show", id)["status"] == "ready")

    converse(shell, talk, **QUICK)
    assert shell.ask("runs", id)[0]["status"] == "expired"
    assert [worker["status"] for worker in shell.ask("worker", "list", "--all")] == ["dead"]


def test_a_claim_that_a_person_took_is_told_as_lost(shell: Shell) -> None:
    first, second = shell.add("One"), shell.add("Two")

    async def talk(rota: Caller) -> None:
        await rota("claim", job_id=first)
        shell.say("cancel", first)
        lost = await rota.refused("finish", job_id=first)
        assert "your claim is lost" in lost and "stop working on it" in lost
        await rota("claim", job_id=second)
        shell.say("done", second, "--force")
        eventually(lambda: shell.ask("worker", "list")[0]["heartbeat_count"] > 3)
        assert "your claim is lost" in await rota.refused("progress", job_id=second, done=1)
        assert shell.ask("show", first)["status"] == "cancelled"

    converse(shell, talk, **QUICK)


def test_a_worker_that_was_asked_to_stop_claims_no_more(shell: Shell) -> None:
    first, _ = shell.add("One"), shell.add("Two")

    async def talk(rota: Caller) -> None:
        await rota("claim", job_id=first)
        (worker,) = shell.ask("worker", "list")
        shell.say("worker", "stop", worker["id"])
        beats = worker["heartbeat_count"]
        eventually(lambda: shell.ask("worker", "list")[0]["heartbeat_count"] > beats + 1)
        assert "a person asked this worker to stop" in await rota.refused("claim")
        await rota("finish", job_id=first)

    converse(shell, talk, "--most", "2", **QUICK)
    assert shell.ask("show", first)["status"] == "done"
