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
SLOW = "#!/bin/bash\nsleep 600 &\nsleep 600\n"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    paths = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(EXAMPLE)}
    made = Shell(tmp_path, **paths, ROTA_BACKOFF_FIRST="10ms")
    made.say("init", "--db", "jobs.db")
    shell = made.exporting(ROTA_DB=str(tmp_path / "jobs.db"))
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
    return [json.loads(line) for line in (folder / "work" / task / "ledger.jsonl").read_text().splitlines()]


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
