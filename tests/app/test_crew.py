"""A crew inside an application, in real processes: it is steered from Python, and ends with the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.crews import children, is_alive
from tests.support.eventually import eventually
from tests.support.shell import environment
from tests.support.stores import STORES, exports

if TYPE_CHECKING:
    from pathlib import Path

SHOP = """
import os, sys, time
import rota

app = rota.App()


@app.task(queue="tag")
def tag(n: int) -> int:
    return n * n


@app.task(queue="tag")
def hold() -> None:
    open("held", "w").write(str(os.getpid()))
    while not os.path.exists("go"):
        time.sleep(0.01)

"""


def program(folder: Path, body: str, first: str = "", **env: str) -> subprocess.Popen[str]:
    """A script with the shop's tasks and this main part."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    (folder / "shop.py").write_text(f"{first}{SHOP}\nif __name__ == '__main__':\n{lines}")
    words = [sys.executable, str(folder / "shop.py")]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=folder, env=environment(**env), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def run(folder: Path, body: str, first: str = "", **env: str) -> str:
    with program(folder, body, first, **env) as process:
        out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    return out


def test_a_crew_works_while_its_block_lasts_and_leaves_nothing(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        """
with app.crew(tag=2) as crew:
    print(crew.name, sorted(crew.states()), [job.wait(60).result for job in [tag.enqueue(n) for n in (2, 3)]])
    pids = [crew.pid, *(worker.pid for worker in crew.workers())]
    print(crew.is_running, len(pids))
print(crew.is_running, crew.pid, [pid for pid in pids if os.path.exists(f"/proc/{pid}")], os.listdir(".rota"))
""",
    ).splitlines()
    assert told[0] == "beside ['worker:tag:0', 'worker:tag:1'] [4, 9]"
    assert told[1] == "True 3"
    assert told[2].startswith("False None [] ")
    assert "crew-beside" not in told[2]


@pytest.mark.parametrize("kind", STORES)
def test_it_is_steered_from_python(tmp_path: Path, kind: str) -> None:
    told = run(
        tmp_path,
        """
crew = app.crew(tag=1, name="shop").start()
tag.enqueue(1).wait(60)
crew.pause("tag")
waiting = tag.enqueue(5)
try:
    waiting.wait(0.3)
except rota.WaitedTooLong:
    print("paused", waiting.get().status)
crew.resume()
print("resumed", waiting.wait(60).result)
crew.scale(tag=3)
while list(crew.states().values()) != ["up"] * 3:
    time.sleep(0.01)
print("scaled")
for call in (lambda: crew.reset("worker:tag:9"), lambda: crew.pause("other"), crew.start):
    try:
        call()
    except rota.RotaError as problem:
        print(type(problem).__name__, problem)
crew.stop(graceful=True)
crew.start()
print("again", tag.enqueue(4).wait(60).result)
crew.stop(now=True)
""",
        **exports(kind, tmp_path),
    ).splitlines()
    assert told[:3] == ["paused ready", "resumed 25", "scaled"]
    assert told[3:6] == [
        "NotFound crew shop has no slot worker:tag:9",
        "Refused crew shop has no pool for queue other",
        "Conflict crew shop is running already",
    ]
    assert told[6] == "again 16"


def test_it_ends_with_its_program_even_when_that_is_killed(tmp_path: Path) -> None:
    body = """
crew = app.crew(tag=1).start()
job = hold.enqueue()
while not os.path.exists("held") or not open("held").read():
    time.sleep(0.01)
if os.fork() == 0:
    time.sleep(600)
print(crew.pid, flush=True)
sys.stdin.read()
"""
    with program(tmp_path, body) as process:
        assert process.stdout is not None
        orchestrator = int(process.stdout.readline())
        worker = int((tmp_path / "held").read_text())
        assert is_alive(orchestrator) and is_alive(worker)
        forked = [pid for pid in children(process.pid) if pid != orchestrator]
        process.kill()
        process.wait()
        (tmp_path / "go").touch()
        try:
            eventually(lambda: not is_alive(orchestrator) and not is_alive(worker))
        finally:
            for pid in forked:
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("app.crew()", "a crew needs pools"),
        ("app.crew(tag=0)", "tag=0 is not a pool"),
        ("app.crew({'a b': 1})", "'a b' is not a queue name"),
        ("rota.App().crew(tag=1).start()", "workers could not find this App"),
    ],
)
def test_a_crew_that_cannot_be_is_refused_with_what_would_be_right(tmp_path: Path, call: str, told: str) -> None:
    body = f"try:\n    {call}\nexcept rota.BadInput as problem:\n    print(problem)"
    assert told in run(tmp_path, body)


def test_a_crew_whose_workers_do_not_come_up_says_why(tmp_path: Path) -> None:
    body = """
os.environ["BREAK"] = "1"
try:
    app.crew(tag=1).start()
except rota.RotaError as problem:
    print(problem)
"""
    broken = "import os\nif os.environ.get('BREAK'):\n    raise SystemExit('no such model')\n"
    told = "no worker of the crew came up: module shop cannot be imported: SystemExit: no such model (line 3 of shop.py"
    assert told in run(tmp_path, body, broken)
