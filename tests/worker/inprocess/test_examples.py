"""The examples run as they stand, each as a process of its own, and the jobs become what the example says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.eventually import eventually
from tests.support.shell import Shell, environment
from tests.support.stores import STORES, exports

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parents[3] / "examples" / "hooks"
ALL = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "model")
QUICK = {"ROTA_BACKOFF_FIRST": "1ms", "ROTA_BACKOFF_MOST": "1ms", "ROTA_HEARTBEAT_INTERVAL": "200ms"}


class Place:
    """A folder with a database, in which examples run."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.shell = Shell(folder, **exports(kind, folder))
        self.shell.make()
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, example: str, **env: str) -> subprocess.Popen[bytes]:
        with open(self.folder / "said", "ab") as said:
            process = subprocess.Popen(
                [sys.executable, EXAMPLES / f"{example}.py"],
                cwd=self.folder,
                env=environment(**self.shell.env, **QUICK, **env),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        self._started.append(process)
        return process

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def ends(self, id: int, status: str = "done") -> dict[str, object]:
        self.shell.say("wait", id, "--for", "final", "--timeout", "60s")
        job: dict[str, object] = self.shell.ask("show", id)
        assert job["status"] == status, (job, self.said())
        return job

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait(60)
        self.shell.end()


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, request.param)
    yield made
    made.close()


def test_there_is_one_for_each_of_the_documents() -> None:
    told = "simple custom_context cli_subprocess streaming multi_turn chain resume parallel_children"
    assert sorted(told.split()) == ALL


@pytest.mark.parametrize("example", ALL)
def test_each_ends_its_job_and_leaves_when_asked(place: Place, example: str) -> None:
    process = place.start(example)
    id = place.shell.add("Tag a.wav")
    place.ends(id)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert [worker["status"] for worker in place.shell.ask("worker", "list", "--all")] == ["stopped"]
    assert "Traceback" not in place.said()


def test_simple_keeps_the_answer_and_a_transcript(place: Place) -> None:
    place.start("simple")
    id = place.shell.add("Tag a.wav")
    answer = place.ends(id)["result"]
    assert answer == f"answer to <Complete job {id}: Tag a.wav>"
    assert json.loads(place.shell.say("logs", id)) == {"type": "assistant", "text": answer}


def test_custom_context_selects_by_title(place: Place) -> None:
    place.start("custom_context")
    results = [place.ends(place.shell.add(title))["result"] for title in ("Write tests", "Write code")]
    assert [result["agent"] for result in results if isinstance(result, dict)] == ["tester", "implementer"]


def test_cli_subprocess_keeps_both_streams_and_fails_with_the_command(place: Place) -> None:
    place.start("cli_subprocess")
    id = place.shell.add("$(touch pwned); `touch pwned`")
    place.ends(id)
    assert json.loads(place.shell.say("logs", id))["text"] == f"answer to <Job: {id}. $(touch pwned); `touch pwned`>"
    assert place.shell.say("logs", id, "--stderr") == "thinking took no time at all"
    assert not (place.folder / "pwned").exists()
    bad = place.shell.add("impossible", "--max-attempts", 1)
    assert place.ends(bad, "failed")["error"] == "the model ended with exit code 1"


def test_streaming_can_be_followed(place: Place) -> None:
    place.start("streaming", MODEL_PAUSE="0.1")
    id = place.shell.add("Tag a.wav")
    place.shell.say("wait", id, "--for", "active", "--timeout", "60s")
    lines = [json.loads(line) for line in place.shell.say("logs", id, "--follow").splitlines()]
    assert [line["type"] for line in lines] == ["user", *["assistant"] * 5, "result"]
    assert place.ends(id)["result"] == "turn 1: working on it"


def test_multi_turn_asks_again_and_the_model_settles_with_the_token(place: Place) -> None:
    place.start("multi_turn")
    id = place.shell.add("Tag a.wav")
    place.ends(id)
    eventually(lambda: f"job {id} done" in place.said())
    assert "not done yet, but active: asking again" in place.said()
    assert [run["status"] for run in place.shell.ask("runs", id)] == ["completed"]


def test_chain_applies_what_was_approved_at_the_second_attempt(place: Place) -> None:
    place.start("chain")
    id = place.shell.add("Add a button")
    assert place.ends(id)["result"] == "APPROVED"
    first, second = place.shell.ask("runs", id)
    assert (first["error"], second["status"]) == ("REJECTED: the first draft has no tests", "completed")
    assert "second draft" in (place.folder / f"applied-{id}.txt").read_text()


def test_resume_goes_on_where_a_killed_worker_was(place: Place) -> None:
    first = place.start("resume", MODEL_PAUSE="0.02")
    id = place.shell.add("A long one")
    turns = place.folder / f"turns-{id}.txt"
    eventually(lambda: turns.exists() and turns.read_text().splitlines()[1:])
    os.kill(first.pid, signal.SIGKILL)
    first.wait(60)
    place.start("resume")
    assert place.ends(id)["result"] == "5 turns"
    done = [int(line) for line in turns.read_text().splitlines()]
    assert sorted(set(done)) == [1, 2, 3, 4, 5] and len(done) <= 6, "at most the turn in hand is done again"
    assert "attempt 2 goes on after turn" in place.said()


def test_parallel_children_are_done_with_their_parent(place: Place) -> None:
    parent = place.shell.add("Write the report")
    children = [place.shell.add(title, "--parent", parent, "--queue", "chapters") for title in ("One", "Two", "Three")]
    place.start("parallel_children")
    assert place.ends(parent)["result"] == {"children": children}
    for id in children:
        assert place.ends(id)["result"] == "turn 1: working on it"
