"""How-to pages work as they are written: their commands are typed in, their programs run."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.played import Scene, play, shown
from tests.support.shell import environment

if TYPE_CHECKING:
    from pathlib import Path

HOWTO = ROOT / "docs/howto"


def python(name: str, nth: int = 0) -> str:
    return blocks(HOWTO / f"{name}.md", "python")[nth]


DONE = "rota wait 1 --for done --timeout 60s > waited"
TAG = """rota add 'Tag a.flac' --queue tag --kind tag --payload '{"path": "a.flac"}' > added\n""" + DONE
CLIENT = """
class Client:
    async def get(self, url): return url

async def open_client(): return Client()
"""
SCENES = {
    "dependencies": Scene(),
    "limits": Scene(before="file=a.wav"),
    "commands": Scene(
        files={"convert.sh": '#!/bin/sh\necho "$@"\n'},
        after=f"{DONE}; [[ $(rota logs 1) == './a.wav --title=Convert a.wav' ]]",
    ),
    "crew": Scene(files={"shop.py": python("crew")}, after=f"{TAG}; grep 'run-00000001 tagging a.flac' said-0"),
    "coroutines": Scene(
        files={"shop.py": python("coroutines") + CLIENT},
        after=f"""rota add Fetch --queue fetch --kind fetch --payload '{{"url": "abc"}}' > added; {DONE}""",
    ),
    "dashboard": Scene(
        files={"shop.py": python("crew")},
        instead={
            "rota token create wall-screen --scope read": "WALL=$(rota token create wall-screen --scope read --json | jq -r .secret)"
        },
    ),
    "from-tag-workers": Scene(files={"music.py": python("from-tag-workers")}, after=TAG),
}
# What depends on the moment: times, ages, ids, numbers of processes and one-time codes.
CHANCE = r"\d\d:\d\d:\d\d|worker-\w+|run-\w+|pid \d+|\b\d+(\.\d+)?m?s\b|code=[\w-]+"


@pytest.mark.parametrize("name", SCENES)
def test_the_commands_of_a_page_work_in_a_fresh_folder(name: str, tmp_path: Path) -> None:
    said = play(name, SCENES[name], tmp_path)
    assert said


@pytest.mark.parametrize("name", ["dependencies", "limits"])
def test_a_page_shows_what_its_commands_print(name: str, tmp_path: Path) -> None:
    said = play(name, SCENES[name], tmp_path)
    lines = shown(HOWTO / f"{name}.md")
    assert lines and [line for line in lines if line not in said.splitlines()] == []


def test_the_program_of_the_page_on_embedding_prints_what_its_crew_made(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(python("embed"))
    ran = subprocess.run(
        [sys.executable, "shop.py"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    assert ran.stdout == "[6, 7]\n"
