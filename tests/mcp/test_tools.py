"""What the tools of `rota mcp` do, on every store, through the SDK's own client."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.api.servers import Server
from tests.mcp.client import Caller, converse
from tests.support.shell import Shell
from tests.support.stores import exports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.crew

TOOLS = ["ready", "claim", "show", "renew", "progress", "finish", "fail", "release", "add", "why"]


@pytest.fixture(params=["sqlite", "postgres", "http"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    if request.param == "http":
        (tmp_path / "server").mkdir()
        server = Server(tmp_path / "server")
        yield Shell(tmp_path, ROTA_DB=server.url, ROTA_TOKEN=server.secret)
        server.end()
        return
    made = Shell(tmp_path, **exports(request.param, tmp_path))
    made.make()
    yield made
    made.end()


def test_a_job_is_found_claimed_done_and_followed_by_others(shell: Shell) -> None:
    plan = shell.add("Plan", "--payload", '{"goal": "a tool"}', "--priority", 5)
    other = shell.add("Other")

    async def talk(rota: Caller) -> None:
        assert [job["id"] for job in (await rota("ready"))["jobs"]] == [plan, other]
        claimed = await rota("claim")
        assert claimed["job"]["id"] == plan and claimed["job"]["payload"] == {"goal": "a tool"}
        assert claimed["job"]["previous_runs"] == [] and claimed["claim"]["job_id"] == plan
        first = (await rota("add", title="Build", parent=plan, payload={"part": 1}))["job"]
        second = (await rota("add", title="Review", after=[first["id"]], queue="review", key="review-1"))["job"]
        assert (first["parent"], second["after"], second["status"]) == (plan, [first["id"]], "blocked")
        assert (await rota("add", title="Review", queue="review", key="review-1"))["job"]["id"] == second["id"]
        unique = (await rota("add", title="Review", queue="review", key="review-1", unique="waiting"))["job"]
        assert unique["id"] == second["id"]
        assert f"waits for job {first['id']}" in (await rota("why", job_id=second["id"]))["why"]
        assert await rota("finish", job_id=plan, result={"parts": 1}) == {"job_id": plan, "status": "done"}
        assert (await rota("show", job_id=plan))["job"]["result"] == {"parts": 1}
        await rota("claim", job_id=first["id"])
        await rota("finish", job_id=first["id"])
        assert [job["id"] for job in (await rota("ready", queue="review"))["jobs"]] == [second["id"]]

    converse(shell, talk)
    assert shell.ask("show", plan)["status"] == "done"


def test_a_failed_attempt_hands_its_notes_to_the_next(shell: Shell) -> None:
    id = shell.add("Build", "--max-attempts", 2)

    async def talk(rota: Caller) -> None:
        await rota("claim")
        assert (await rota("progress", job_id=id, done=1, total=3, note="read it", checkpoint={"seen": [1]}))["kept"]
        shown = [each["metadata"] for each in shell.ask("worker", "list") if each["name"] == "builder"]
        assert shown[0]["progress"] == {"done": 1, "total": 3, "note": "read it"}
        failed = (await rota("fail", job_id=id, error="the tests fail"))["job"]
        assert failed["attempts"] == 1 and failed["status"] in ("ready", "scheduled")
        shell.say("wait", id, "--for", "ready", "--timeout", "30s")
        again = (await rota("claim", job_id=id))["job"]
        assert again["checkpoint"] == {"seen": [1]}
        assert [(run["status"], run["error"]) for run in again["previous_runs"]] == [("failed", "the tests fail")]
        released = (await rota("release", job_id=id, note="somebody else should"))["job"]
        assert (released["status"], released["note"]) == ("ready", "somebody else should")
        await rota("claim", job_id=id)
        final = (await rota("fail", job_id=id, error="it cannot be done", final=True))["job"]
        assert (final["status"], final["error"]) == ("failed", "it cannot be done")

    converse(shell, talk, "--name", "builder", ROTA_BACKOFF_FIRST="1ms")


def test_refusals_say_what_would_be_right(shell: Shell) -> None:
    ids = [shell.add("One"), shell.add("Two"), shell.add("Three", "--queue", "review")]

    async def talk(rota: Caller) -> None:
        assert "you do not hold job 1 (you hold nothing): claim it first" in await rota.refused("finish", job_id=1)
        assert "there is no job 99" in await rota.refused("show", job_id=99)
        assert "there is no job 99 to wait for" in await rota.refused("add", title="X", after=[99])
        assert "error" in await rota.refused("fail", job_id=1)
        assert (await rota("claim", queue="empty"))["job"] is None
        for id in ids[:2]:
            await rota("claim", job_id=id)
        assert f"you hold job {ids[0]} already" in await rota.refused("claim", job_id=ids[0])
        held = f"you hold job {ids[0]}, {ids[1]}: finish, fail or release it before you claim another"
        assert held in await rota.refused("claim")
        result = {"x": "y" * 300_000}
        assert "the result is too large" in await rota.refused("finish", job_id=ids[0], result=result)
        await rota("finish", job_id=ids[0])

    converse(shell, talk, "--most", "2")


def test_a_session_for_one_queue_stays_there(shell: Shell) -> None:
    other = shell.add("Elsewhere", "--priority", 9)
    id = shell.add("Here", "--queue", "review")

    async def talk(rota: Caller) -> None:
        assert [job["id"] for job in (await rota("ready"))["jobs"]] == [id]
        assert (await rota("claim"))["job"]["id"] == id
        assert (await rota("add", title="Next"))["job"]["queue"] == "review"
        assert (await rota("add", title="Next", queue="review"))["job"]["queue"] == "review"
        for tool, words in (
            ("ready", {"queue": "default"}),
            ("claim", {"queue": "default"}),
            ("claim", {"job_id": other}),
            ("show", {"job_id": other}),
            ("why", {"job_id": other}),
            ("add", {"title": "Far", "queue": "far"}),
        ):
            assert "works for queue review alone" in await rota.refused(tool, **words)
        await rota("finish", job_id=id)
        assert (await rota("show", job_id=id))["job"]["status"] == "done"

    converse(shell, talk, "--queue", "review", "--most", "2")
    assert [job["queue"] for job in shell.ask("list")].count("far") == 0
    assert shell.ask("show", other)["status"] == "ready"


def test_what_a_model_reads_of_the_tools(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.make()

    async def talk(rota: Caller) -> None:
        listed = (await rota.client.list_tools()).tools
        assert [tool.name for tool in listed] == TOOLS
        for tool in listed:
            assert tool.description and len(tool.description) < 200, tool.name
            assert tool.output_schema is not None, "its answer is structured"
            for name, schema in tool.input_schema["properties"].items():
                assert "description" in schema or name in ("limit", "max_attempts"), (tool.name, name)
        assert rota.client.instructions and "previous_runs" in rota.client.instructions

    converse(shell, talk)


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    script = "import sys; sys.modules['mcp'] = None; from rota.cli.main import run; sys.exit(run(sys.argv[1:]))"
    ran = subprocess.run(
        [sys.executable, "-c", script, "mcp"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr == "rota: `rota mcp` needs the MCP SDK, which is not installed: pip install 'rota[mcp]'\n"


def test_without_a_database_it_says_so_and_ends(tmp_path: Path) -> None:
    assert "`rota init` makes one" in Shell(tmp_path).refuse("mcp", code=3)


def test_words_that_are_no_request_end_nothing(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.make()
    lines = ["rubbish", "{}", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "nothing"})]
    answer = shell.call("mcp", stdin="".join(f"{line}\n" for line in lines))
    assert answer.returncode == 0, answer
    assert shell.ask("worker", "list") == []
