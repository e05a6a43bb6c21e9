"""The team of `examples/agents`: reviews send work back with notes, budgets park it for a person, nothing is lost."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.test_demo import play
from tests.support.eventually import eventually
from tests.support.processes import processes_in
from tests.support.shell import Shell, environment
from tests.support.stores import STORES, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "examples" / "agents"
LIST = """
[[task]]
name = "one"
goal = "Do one thing."
units = 1000
minutes = {minutes}
"""
# Fails at its first implementation; keeps what it is told.
FLAKY = """#!/bin/bash
cat > "prompt-$AGENT_STAGE"
if [ "$AGENT_STAGE" = implement ] && [ ! -e tried ]; then touch tried; echo "no luck" >&2; exit 3; fi
echo '{"result": "APPROVED", "cost": 2.5}'
"""
# Says something else than it should at its first attempt, once it has thought for a moment.
CHATTY = """#!/bin/bash
if [ ! -e tried ]; then touch tried; sleep 0.2; echo "With pleasure!"; exit; fi
echo '{"result": "APPROVED", "units": 1}'
"""
# Never answers at its first attempt.
STUCK = """#!/bin/bash
if [ ! -e tried ]; then touch tried; sleep 600; fi
echo '{"result": "APPROVED", "units": 1}'
"""
SLOW = "#!/bin/bash\nsleep 600 &\nsleep 600\n"


@pytest.fixture(params=STORES)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    paths = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(EXAMPLE)}
    shell = Shell(tmp_path, **paths, ROTA_BACKOFF_FIRST="10ms", ROTA_DB=url_of(request.param, tmp_path))
    shell.say("init", "--db", shell.env["ROTA_DB"])
    yield shell
    shell.end()


def team(shell: Shell, model: str, minutes: float = 10, **env: str) -> subprocess.Popen[str]:
    """The list of one task, loaded twice, and a crew that works on it."""
    (shell.folder / "tasks.toml").write_text(LIST.format(minutes=minutes))
    (shell.folder / "model").write_text(model)
    (shell.folder / "model").chmod(0o755)
    shell.env |= {"AGENT_MODEL": shlex.quote(str(shell.folder / "model")), **env}
    for _ in range(2):
        words = [sys.executable, str(EXAMPLE / "team.py"), "tasks.toml"]
        subprocess.run(words, cwd=shell.folder, env=environment(**shell.env), stdout=subprocess.DEVNULL, check=True)
    assert len(shell.ask("list")) == 3, "loading again adds nothing"
    return shell.start("orchestrator", "start", "--app", "team:app", "--pool", "agents=2", "--no-http")


def stop(crew: subprocess.Popen[str]) -> None:
    crew.send_signal(signal.SIGTERM)
    crew.communicate(timeout=60)
    assert crew.returncode == 0


def ledger(folder: Path, task: str) -> list[dict[str, Any]]:
    """What was charged for each attempt at it."""
    lines = [json.loads(line) for line in (folder / "work" / task / "ledger.jsonl").read_text().splitlines()]
    return [line for line in lines if "seconds" in line]


def age(folder: Path, task: str) -> float:
    """How many seconds the attempt at it that runs has shown signs of life."""
    path = folder / "work" / task / "ledger.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return path.stat().st_mtime - float(json.loads(lines[-1])["began"]) if lines else 0


def parent(pid: int) -> int:
    """The process that started it."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_the_demo_sends_back_parks_and_goes_on(tmp_path: Path) -> None:
    answer = play(tmp_path, str(EXAMPLE / "demo.sh"))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Job 8 has failed after 1 of 3 attempts: parked: 300 of 300 units" in answer.stdout
    assert "Job 10 waits for job 9 (blocked)." in answer.stdout
    assert "sent back: draft 1 is too rough" in answer.stdout
    (folder,) = tmp_path.glob("**/rota-agents.*")
    parser, poem = ledger(folder, "parser"), ledger(folder, "poem")
    assert [each["stage"] for each in parser] == ["plan", "implement", "review", "implement", "review"]
    assert sum(each["units"] for each in poem) == 40 + 3 * 130
    assert (folder / "work" / "parser" / "answer.txt").read_text() == "draft 2\n", "the notes were handed over"
    assert processes_in(tmp_path) == []


def test_what_went_wrong_is_told_to_the_next_attempt_and_units_are_what_the_model_calls_them(shell: Shell) -> None:
    crew = team(shell, FLAKY, AGENT_UNITS="cost")
    eventually(lambda: shell.ask("show", 3)["status"] == "done")
    told = (shell.folder / "work" / "one" / "prompt-implement").read_text()
    assert "Goal: Do one thing." in told and "plan.md:\nAPPROVED" in told
    assert "Attempt 1 failed: the command ended with exit code 1: " in told and "no luck" in told
    assert shell.ask("show", 2)["result"] == {"said": "APPROVED", "units": 2.5}
    stop(crew)


def test_a_task_that_takes_too_long_is_parked_with_nothing_left_running(shell: Shell) -> None:
    crew = team(shell, SLOW, minutes=0.01)
    eventually(lambda: shell.ask("show", 1)["status"] == "failed")
    job = shell.ask("show", 1)
    assert re.match(r"parked: 0 of 1000 units and 0\.[\d]+ of 0\.01 minutes are used up", job["error"]), job
    assert job["attempts"] == 1 and shell.ask("show", 2)["status"] == "blocked"
    eventually(lambda: not [pid for pid in processes_in(shell.folder / "work") if pid])
    stop(crew)
    assert processes_in(shell.folder) == []


@pytest.mark.parametrize("victim", ["agent", "worker"])
def test_the_time_of_a_killed_attempt_is_charged_to_the_budget(shell: Shell, victim: str) -> None:
    crew = team(shell, STUCK)
    eventually(lambda: age(shell.folder, "one") > 2)
    (agent,) = processes_in(shell.folder, "agent.py")
    os.kill(agent if victim == "agent" else parent(agent), signal.SIGKILL)
    eventually(lambda: shell.ask("show", 3)["status"] == "done", within=60)
    first, again, *rest = ledger(shell.folder, "one")
    assert first["stage"] == again["stage"] == "plan" and len(rest) == 2
    assert first["seconds"] >= 2 and first["units"] == 0, "until its last sign of life"
    assert again["seconds"] < first["seconds"] and again["units"] == 1
    stop(crew)


def test_an_attempt_after_a_killed_one_has_only_what_is_left_of_the_budget(shell: Shell) -> None:
    crew = team(shell, SLOW, minutes=0.1)
    eventually(lambda: age(shell.folder, "one") > 2)
    (agent,) = processes_in(shell.folder, "agent.py")
    os.kill(agent, signal.SIGKILL)
    eventually(lambda: shell.ask("show", 1)["status"] == "failed")
    assert shell.ask("show", 1)["error"].startswith("parked: ")
    first, again = ledger(shell.folder, "one")
    assert first["seconds"] >= 2 and again["seconds"] >= 6 - first["seconds"] - 0.01
    assert again["seconds"] < 6, "not the whole budget once more"
    stop(crew)


def test_an_answer_that_nobody_can_read_costs_its_time_and_is_asked_for_again(shell: Shell) -> None:
    crew = team(shell, CHATTY)
    eventually(lambda: shell.ask("show", 3)["status"] == "done")
    first, again, *_ = ledger(shell.folder, "one")
    assert first["stage"] == again["stage"] == "plan"
    assert first["seconds"] >= 0.2 and first["units"] == 0
    assert "not a JSON document with a result: 'With pleasure!" in shell.ask("runs", 1)[0]["error"]
    stop(crew)
