"""How-to pages work as they are written: their commands are typed in, their programs run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import metadata
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, blocks, pages
from tests.docs.played import Scene, bash, play, shown
from tests.mcp.client import Caller, converse
from tests.support.shell import Shell, environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crew

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
CONVERT = '#!/bin/sh\necho "$@"\n'
FILES = "CREATE TABLE file (id INTEGER PRIMARY KEY, path TEXT, tag TEXT); INSERT INTO file (path) VALUES ('a/0.wav')"
STORM = """--jobs 100 --minutes 0.05 --workers 1 --kills 4 > table 2>&1 & stays+=($!)
until job=$(rota --db rota-chaos-*/rota.db list --status done --limit 1 --json 2> absent | jq -e '.[0].id'); do
  kill -0 $!
done"""
CAPTURES = """
from pathlib import Path
import rota

def capture_io(run_id, job):
    return {"transcript_path": f"logs/{run_id}.out", "stderr_path": f"logs/{run_id}.err"}

def execute(job, ctx):
    Path(f"logs/{ctx.run_id}.out").write_text("hello\\n")
    Path(f"logs/{ctx.run_id}.err").write_text("warned\\n")

rota.run_worker(execute, capture_io=capture_io)
"""
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
    # A folder is kept when something was violated; what is in it is there while it blows, too.
    "chaos": Scene(
        before='export TMPDIR="$PWD"',
        instead={
            "--jobs 2000 --minutes 1": STORM,
            "/tmp/rota-chaos-1a2b3c": '"$(echo rota-chaos-*)"',
            "runs 57": "runs $job",
            """'"job": 57'""": '"\\"job\\": $job"',
        },
        after="wait %1; grep 'violated *none' table; [[ ! -e $(echo rota-chaos-*) ]]; [[ $(rota list) == 'no jobs'* ]]",
    ),
    # Both ways in one folder: two devices for the first crew, the others for those that are told theirs.
    "gpu-workers": Scene(
        files={"embed.py": python("gpu-workers").partition("\njob = ")[0], "render.sh": CONVERT},
        before="export GPUS=0,1,2,3 ROTA_DB=sqlite:///embed.db",
        after=f"""rota add Embed --queue embed --kind embed --payload '{{"text": "abc"}}' > added; {DONE}
        rota add Render --queue render --payload '{{"path": "a.obj"}}' > added
        rota wait 2 --for done --timeout 60s > waited; [[ $(rota logs 2) == ./a.obj ]]""",
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


def test_the_commands_of_the_page_on_hooks_show_what_its_worker_wrote(tmp_path: Path) -> None:
    scene = Scene(
        files={"worker.py": CAPTURES},
        before=f"rota add Hello > added; python worker.py 2> said & stays+=($!); {DONE}",
        instead={"logs 5": "logs 1", "run-0000002s": "$(rota runs 1 --json | jq -r '.[0].id')"},
    )
    assert play("hooks", scene, tmp_path).split() == ["hello", "hello", "warned"]


@pytest.mark.parametrize("name", ["dependencies", "limits"])
def test_a_page_shows_what_its_commands_print(name: str, tmp_path: Path) -> None:
    said = play(name, SCENES[name], tmp_path)
    lines = shown(HOWTO / f"{name}.md")
    assert lines and [line for line in lines if line not in said.splitlines()] == []


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


def test_a_client_with_the_settings_of_the_page_on_mcp_does_a_job(tmp_path: Path) -> None:
    (block,) = blocks(HOWTO / "mcp.md", "json")
    server = json.loads(block.replace("/srv/shop", str(tmp_path)))["mcpServers"]["rota"]
    assert server["command"] == "rota" and server["args"][0] == "mcp"
    shell = Shell(tmp_path)
    shell.say("init")
    id = shell.add("Read it", "--queue", "review")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    async def talk(rota: Caller) -> None:
        assert (await rota("claim"))["job"]["id"] == id
        assert [worker["name"] for worker in shell.ask("worker", "list")] == ["reviewer"]
        await rota("finish", job_id=id, result={"notes": 2})

    converse(Shell(elsewhere), talk, *server["args"][1:], **server["env"])
    assert shell.ask("show", id)["result"] == {"notes": 2}


def test_a_loop_with_the_line_of_its_page_leaves_when_it_is_asked_to(tmp_path: Path) -> None:
    (line,) = blocks(HOWTO / "bash-loops.md", "bash")
    begin = "rota init . > made; export ROTA_WORKER_ID=$(rota worker register --name loop --json | jq -r .id)"
    loop = f"turns=0; while (( turns += 1 )); do\n(( turns < 3 )) || rota worker stop $ROTA_WORKER_ID\n{line}\ndone"
    assert bash(f"{begin}; {loop}; echo $turns turns", tmp_path).endswith("3 turns\n")


def test_every_extra_that_a_page_installs_exists() -> None:
    installed = {extra for page in pages() for extra in re.findall(r"rota\[(\w+)\]", page.read_text(encoding="utf-8"))}
    assert installed and installed <= set(metadata("rota").get_all("Provides-Extra", []))
