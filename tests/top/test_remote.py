"""`rota top` over the HTTP API: the same screen where no database is in reach."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rota.core.job import NewJob
from tests.api.servers import Server
from tests.support.crews import Crew
from tests.support.eventually import in_time
from tests.support.shell import Shell
from tests.top.watch import Watch, watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.crew


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.end()


@pytest.fixture
def crew(server: Server) -> Iterator[Crew]:
    """A crew on the database that the server answers for."""
    crew = Crew(server.shell.folder, ROTA_RESTART_BACKOFF="50ms")
    yield crew
    crew.end()


def far(server: Server, secret: str = "") -> str:
    """The API with the token in its user part."""
    scheme, _, place = server.url.partition("://")
    return f"{scheme}://{secret or server.secret}@{place}"


def test_a_crew_is_watched_and_steered_through_the_api(server: Server, crew: Crew) -> None:
    id = crew.add("hold", name="a")
    crew.start("tag=2")

    async def scene(top: Watch) -> None:
        await top.sees("worker:tag:", "busy", str(id), within=60)
        first = await in_time(lambda: crew.held_by("a"))
        os.kill(first, signal.SIGKILL)
        await top.press("4")
        await top.sees("worker:tag:", "signaled", str(id), within=60)
        await top.press("enter")
        await top.sees("signal", "9")
        await top.press("escape", "1", "p")
        await top.sees("queue tag is paused")
        await top.sees("tag", "paused")
        await top.press("r", "s")
        await top.sees("scale tag of crew main")
        await top.write("3")
        await top.sees("queue tag is scaled to 3")
        await top.press("2")
        await top.sees("worker:tag:2", "idle", within=60)
        await top.press("3", "enter")
        await top.sees(f"Job {id} is running")
        await top.press("c", "y")
        await top.sees(f"Job {id} will not run", within=60)

    watch(far(server), scene)
    assert crew.app.jobs.get(id).status == "cancelled"


def test_what_needs_attention_is_told_by_the_api(server: Server, crew: Crew) -> None:
    crew.teach("raise RuntimeError('no model')")
    crew.env["ROTA_RESTART_LIMIT"] = "1"
    crew.start("tag=1")

    async def scene(top: Watch) -> None:
        await top.sees("slot", "worker:tag:0", "failed: it", within=60)
        await top.press("a", "x")
        await top.sees("worker:tag:0 is reset")

    watch(far(server), scene)


def test_the_output_of_a_run_comes_through_the_api(server: Server, crew: Crew) -> None:
    crew.app.enqueue(NewJob("Convert", queue="convert"))
    script = f"cd {crew.folder}; echo one ü; while [ ! -e go ]; do sleep 0.05; done; echo two"
    crew.begin("worker", "exec", "--queue", "convert", "--", "sh", "-c", script)

    async def scene(top: Watch) -> None:
        await top.sees("worker:convert:0", "busy", within=60)
        await top.press("2", "l")
        await top.sees("one ü")
        await top.sees("transcript of run-", "live")
        (crew.folder / "go").touch()
        await top.sees("two")
        await top.sees("transcript of run-", "over")
        assert top.text.count("one") == 1

    watch(far(server), scene)


def test_a_server_that_is_killed_is_said_to_be_away_until_another_answers(server: Server, crew: Crew) -> None:
    server._env["ROTA_HTTP_PORT"] = server.url.rpartition(":")[2]
    crew.add("tag", n=1)

    async def scene(top: Watch) -> None:
        await top.sees("tag", "open")
        assert server.process is not None
        server.process.kill()
        server.process.wait()
        await top.sees("✖ the store is away", within=90)
        server.start()
        await top.misses("away", within=90)
        await top.sees("● healthy")

    watch(far(server), scene)


def test_a_reader_may_look_and_is_told_that_it_may_not_act(server: Server, crew: Crew) -> None:
    crew.add("tag", n=1)

    async def scene(top: Watch) -> None:
        await top.sees("tag", "open")
        await top.press("1", "p")
        await top.sees("scope")

    watch(far(server, server.token("reader", "read")), scene)
    assert crew.app.queues.is_open("tag")


def test_the_url_may_be_an_option_and_must_be_one(server: Server, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    shell = Shell(tmp_path / "far", ROTA_TOKEN=server.secret)
    assert shell.say("top", "--url", server.url).startswith("healthy")
    assert shell.ask("top", "--db", server.url)["health"] == "healthy"
    assert "is not the URL of an HTTP API" in shell.refuse("top", "--url", "here.db", code=2)
