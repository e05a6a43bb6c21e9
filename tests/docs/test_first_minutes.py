"""The README's first minutes, as a stranger lives them: a fresh clone, and an empty virtual environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.docs.pages import ROOT, blocks, texts
from tests.support.shell import ROTA, Shell, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.crew

README = ROOT / "README.md"
INSTALL, RUN = "pip install .", "rota run"


def commands() -> list[str]:
    """Every command of the README's console blocks, in order, without its comment."""
    lines = [line for block in blocks(README, "console") for line in block.splitlines() if line.startswith("$ ")]
    return [re.sub(r"\s+# .*", "", line.removeprefix("$ ")) for line in lines]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh clone, with what is not committed yet besides."""
    fresh = tmp_path_factory.mktemp("fresh") / "rota"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(fresh)], check=True)
    for path in texts():
        target = fresh / path.relative_to(ROOT)
        if not target.exists() or target.read_bytes() != path.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    return fresh


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a terminal with an empty virtual environment."""
    venv.create(tmp_path / "venv", with_pip=True)
    path = f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}"
    yield environment(PATH=path, ROTA_HTTP_PORT="0", TMPDIR=str(tmp_path))


@pytest.mark.timeout(300)
def test_the_commands_lead_from_a_clone_to_the_first_job(clone: Path, terminal: dict[str, str], tmp_path: Path) -> None:
    wanted = [command for command in commands() if not command.startswith("./dev")]
    assert wanted[0] == INSTALL and wanted[2] == RUN, wanted
    folder = tmp_path / "home"
    folder.mkdir()
    bash(wanted[0], terminal, clone)
    assert Path(_rota(terminal)).is_relative_to(tmp_path)
    bash(wanted[1], terminal, folder)
    run = subprocess.Popen(
        RUN.split(), cwd=folder / "hello", env=terminal, stdout=subprocess.PIPE, text=True, executable=_rota(terminal)
    )
    try:
        assert run.stdout is not None
        seen: list[str] = []
        while not any("is up" in line for line in seen[-1:]):
            seen.append(run.stdout.readline())
            assert seen[-1], seen
        told = bash("\n".join(wanted[3:5]) + "\nrota wait 1 --timeout 30s\n" + "\n".join(wanted[5:]), terminal, folder)
        assert re.search(r'result +"Hello, Ada!"', told) and "CHECK" in told and "bad" not in told
        (link,) = [line.split()[1] for line in seen if "dashboard" in line]
        with build_opener(HTTPCookieProcessor()).open(link, timeout=10) as page:
            assert b"<title>rota" in page.read()
        os.kill(run.pid, signal.SIGINT)
        out, _ = run.communicate(timeout=60)
        assert run.returncode == 0 and 'greet (Greet Ada): done, "Hello, Ada!"' in out
    finally:
        if run.poll() is None:
            run.kill()
            run.communicate()


def test_dev_demo_plays_the_demo(tmp_path: Path) -> None:
    told = bash("./dev demo", environment(TMPDIR=str(tmp_path)), ROOT)
    assert re.search(
        r"^All 240 pieces are tagged, each committed once; the killed worker's ran again after", told, re.M
    )


def test_every_other_command_of_the_readme_is_a_verb_of_dev() -> None:
    """`./dev demo` is played above; `./dev test` is what runs this."""
    usage = subprocess.run([ROOT / "dev", "help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    verbs = set(re.findall(r"^  (\w+) ", usage, re.MULTILINE))
    ours = [command.split() for command in commands() if command.startswith("./dev")]
    assert ours and all(words[1] in verbs for words in ours)


def test_the_loop_of_the_readme_does_a_job_and_deregisters(tmp_path: Path) -> None:
    (loop,) = blocks(README, "bash", "loop")
    (tmp_path / "my-model").write_text('#!/bin/sh\necho "$1" >> done\n')
    (tmp_path / "my-model").chmod(0o755)
    shell = Shell(tmp_path, PATH=f"{Path(ROTA).parent}:{os.environ['PATH']}")
    shell.say("init")
    id = shell.add("One")
    process = subprocess.Popen(
        ["bash", "-c", loop], cwd=tmp_path, env=environment(**shell.env), stdout=subprocess.DEVNULL, text=True
    )
    try:
        shell.say("wait", id, "--for", "done", "--timeout", "30s")
        assert (tmp_path / "done").read_text() == f"{id}\n"
        process.terminate()
        assert process.wait(30) == 0
        assert shell.ask("worker", "list") == []
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_the_app_of_the_readme_runs_as_it_says(tmp_path: Path) -> None:
    app, use = blocks(README, "python")
    (tmp_path / "shop.py").write_text(app)
    (command,) = re.findall(r"`(rota run --app[^`]+)`", README.read_text(encoding="utf-8"))
    shell = Shell(tmp_path, ROTA_HTTP_PORT="0", ROTA_DB="jobs.db")
    added = subprocess.run([sys.executable, "-c", f"from shop import tag\n{use}"], cwd=tmp_path, stdout=-1, check=True)
    assert added.stdout == b"ready\n"
    run = shell.start(*command.split()[1:])
    try:
        assert run.stdout is not None
        while "job 1 " not in (line := run.stdout.readline()):
            assert line, run.communicate()
        assert json.loads(line.partition("done, ")[2]) == {"tags": 5}
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
        assert run.returncode == 0
    finally:
        shell.end()


def _rota(terminal: dict[str, str]) -> str:
    return str(shutil.which("rota", path=terminal["PATH"]))


def bash(script: str, terminal: dict[str, str], folder: Path) -> str:
    ran = subprocess.run(
        ["bash", "-eu", "-c", script],
        cwd=folder,
        env=terminal,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
