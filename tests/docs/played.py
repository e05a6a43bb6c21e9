"""A page's commands, played as a reader would type them: one shell, in a folder with a fresh database."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rota.demo.postgres_server import free_port
from tests.docs.pages import ROOT, blocks
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from collections.abc import Mapping

# What stays in the foreground until it is told to stop, and what it says once it is ready.
STAYS = {
    **dict.fromkeys(("rota orchestrator start", "rota worker start", "rota worker exec", "rota run"), "is up"),
    "rota serve": "answers at",
}
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
BEGIN = """\
rota init . > made
stays=()
trap 'if (( ${#stays[@]} )); then kill "${stays[@]}"; wait "${stays[@]}"; fi' EXIT
await() { until grep -q "$2" "$1"; do kill -0 $! || { cat "$1"; exit 1; }; sleep 0.05; done; }
"""
# What is another one each time: ids, moments, numbers with what they count.
_CHANCE = {
    r"worker-\w{8}": "worker-…",
    r"\d{4}-\d\d-\d\dT[\d:]+Z": "then",
    r"\b\d+(st|nd|rd|th)\b": "nth",
    r"\b\d[\d.,]*( ?(ms|s))?\b": "n",
    r" +": " ",
}
END = """
for (( last = ${#stays[@]} - 1; last >= 0; last-- )); do
  kill "${stays[last]}" 2> left || true
  wait "${stays[last]}"
done
stays=()
"""


class Scene(NamedTuple):
    """What a page takes for granted, what in it stands for something else, and how one sees that it worked."""

    files: Mapping[str, str] = {}
    before: str = ""
    instead: Mapping[str, str] = {}
    after: str = ""


def commands(page: Path) -> list[str]:
    return [command for block in blocks(page, "console") for command in _COMMAND.findall(block)]


def shown(page: Path) -> list[str]:
    """What the page says that its commands print."""
    text = "".join(_COMMAND.sub("", block) for block in blocks(page, "console"))
    return [line for line in text.splitlines() if line.strip("… ")]


def loosely(text: str) -> str:
    """Without what is another one each time, and without alignment."""
    for pattern, word in _CHANCE.items():
        text = re.sub(pattern, word, text)
    return text.strip()


def play(name: str, scene: Scene, folder: Path) -> str:
    """Everything that the commands of a how-to page, or of a page with a path, print. One that fails fails the play."""
    for file, text in scene.files.items():
        (folder / file).write_text(text)
        (folder / file).chmod(0o755)
    port = str(free_port())
    page = ROOT / name if name.endswith(".md") else ROOT / f"docs/howto/{name}.md"
    lines = [_line(command, count) for count, command in enumerate(commands(page))]
    script = "\n".join(lines)
    for said, meant in {**scene.instead, "8356": port}.items():
        assert said in script or said == "8356", f"the page no longer says {said}"
        script = script.replace(said, meant)
    return bash("\n".join([BEGIN, scene.before, script, scene.after, END]), folder, ROTA_HTTP_PORT=port)


def _line(command: str, count: int) -> str:
    for start, ready in STAYS.items():
        if start in command:
            place, words = f"said-{count}", re.sub(r" +# .*", "", command)
            return f'{words} > {place} 2>&1 &\nstays+=($!); await {place} "{ready}"; cat {place}'
    return command


def bash(script: str, folder: Path, **env: str) -> str:
    path = f"{Path(ROTA).parent}:{os.environ['PATH']}"
    shell = subprocess.Popen(
        [str(shutil.which("bash")), "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment(PATH=path, **env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = shell.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGTERM)  # what stays is in this session too, and ends in order
        said, _ = shell.communicate(timeout=15)
        raise AssertionError(f"{script}\n\n{said}") from None
    assert shell.returncode == 0, f"{script}\n\n{said}"
    return said
