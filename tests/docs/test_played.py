"""How-to pages work as they are written: their commands are typed in, their programs run."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.played import Scene, bash, play, shown
from tests.support import postgres
from tests.support.shell import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
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
CREW = 'rota orchestrator start --app shop:app --pool tag=2 > said 2>&1 & stays+=($!); await said "is up"'
CONVERT = '#!/bin/sh\necho "$@"\n'
FILES = "CREATE TABLE file (id INTEGER PRIMARY KEY, path TEXT, tag TEXT); INSERT INTO file (path) VALUES ('a/0.wav')"
SCENES = {
    "dependencies": Scene(),
    "limits": Scene(before="file=a.wav"),
    "commands": Scene(
        files={"convert.sh": CONVERT},
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
            "rota token create": "WALL=$(rota token create",
            "--scope read": "--scope read --json | jq -r .secret)",
        },
        after="rota orchestrator status",
    ),
    "from-tag-workers": Scene(files={"music.py": python("from-tag-workers")}, after=TAG),
    "sources": Scene(
        files={"library.py": python("sources")},
        before=f'python -c "import sqlite3; sqlite3.connect(\'library.db\').executescript(\\"{FILES}\\")"',
        after="until rota source list --json | jq -e '.[0].success_count == 1' > counted; do sleep 0.1; done",
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_the_commands_of_a_page_work_in_a_fresh_folder(name: str, tmp_path: Path) -> None:
    said = play(name, SCENES[name], tmp_path)
    assert said


@pytest.mark.parametrize("name", ["dependencies", "limits"])
def test_a_page_shows_what_its_commands_print(name: str, tmp_path: Path) -> None:
    said = play(name, SCENES[name], tmp_path)
    lines = shown(HOWTO / f"{name}.md")
    assert lines and [line for line in lines if line not in said.splitlines()] == []


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """One of our own: roles are those of a whole server, and the pages make some."""
    with postgres.own() as own:
        yield postgres.Server(own.url, own.psql)


@pytest.mark.parametrize("name", ["postgres", "tracking", "from-tracking-functions"])
def test_the_commands_of_a_page_work_on_postgresql(name: str, server: postgres.Server, tmp_path: Path) -> None:
    with server.database() as url, postgres.login_role(url) as role:
        play(name, on_postgresql(url, role)[name], tmp_path)


def on_postgresql(url: str, role: str) -> dict[str, Scene]:
    """The scenes of the pages whose database, role and host are somebody's: here they are the test's."""
    here, grant = {"--host south": '--host "$(uname -n)"'}, {"--grant embedder": f"--grant '{role}'"}
    files = {"shop.py": python("crew")}
    return {
        "postgres": Scene(
            files, instead={"postgresql://app@db.example/jobs": url, "rota orchestrator status": f"{CREW}\n", **here}
        ),
        "tracking": Scene(
            instead={
                "postgresql://owner@localhost/app": url,
                "ROTA_DB=postgresql://postgres@localhost/texts": "test -x",
            }
            | {"examples/embed": str(ROOT / "examples/embed"), **grant},
        ),
        "from-tracking-functions": Scene(instead={"postgresql://owner@localhost/app": url, **grant}),
    }


def test_the_settings_of_the_page_on_leaks_are_known(tmp_path: Path) -> None:
    (settings,) = blocks(HOWTO / "memory-leaks.md", "toml")
    (tmp_path / "rota.toml").write_text(settings)
    assert bash("rota init . > made; rota doctor", tmp_path)


def test_the_worker_of_the_page_on_hooks_does_a_job(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(f"my_model = str.upper\n{python('hooks')}")
    script = f"rota init . > made; rota add Hello > added; python worker.py & {DONE}; rota show 1; kill $!; wait $!"
    assert "HELLO" in bash(script, tmp_path)


def test_the_program_of_the_page_on_embedding_prints_what_its_crew_made(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(python("embed"))
    ran = subprocess.run(
        [sys.executable, "shop.py"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    assert ran.stdout == "[6, 7]\n"
