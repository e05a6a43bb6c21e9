"""Lines that a page takes out of a program do in one what the page says: the rest of the program is here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.played import bash
from tests.docs.test_played import CONVERT, DONE, python

if TYPE_CHECKING:
    from pathlib import Path

# Of the jobs one is free, one is somebody's, one is paused and one is not there; the worker is not known at first.
LOOP = """
trap 'echo left with $?; exit 0' EXIT
rota init . > made; for queue in free held paused; do rota add one --queue $queue > added; done
rota claim 2 > held; rota pause paused > paused; WORKER_ID=worker-00000000; set +e
register_again() { WORKER_ID=$(rota worker register --name loop --json | jq -r .id); }
for JOB in 1 1 2 3 9 1; do
"""
CREW = """
rota init . > made
rota orchestrator start --app shop:app --pool {queue}=1 --no-http > said 2>&1 &
trap "kill $!; wait $!" EXIT
"""
# What the page leaves out of its program: what is before it, what is behind it, and what must come of it.
TAG_ALL = """
import sys
from rota.testing import work_off

job = tag_all.enqueue(sys.argv[1])
work_off(app)
print(job.get().result, job.get().checkpoint)
"""
TAG = """
import pathlib, rota
app = rota.App()

@app.task(queue="tag")
def tag(path: str) -> None: ...

"""


def test_the_lines_on_exit_codes_let_a_loop_go_on_until_something_else_is_wrong(tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "docs/reference/errors.md", "console")
    lines = [line[2:] for line in block.splitlines()]  # without their prompts
    said = bash("\n".join([LOOP, *lines, 'echo "mine: $JOB"; done']), tmp_path)
    assert re.findall("mine: .*|left with .*", said) == ["mine: 1", "left with 1"]


def test_a_checkpoint_and_progress_are_kept_as_the_page_on_crews_has_it(tmp_path: Path) -> None:
    program = ["import os, rota", python("crew"), "tag_one = print", python("crew", 1), TAG_ALL]
    (tmp_path / "shop.py").write_text("\n".join(program))
    (tmp_path / "music").mkdir()
    for name in ("a.wav", "b.wav"):
        (tmp_path / "music" / name).touch()
    assert bash("rota init . > made; python shop.py music", tmp_path).splitlines()[-1] == "2 2"


def test_a_command_of_an_app_is_declared_and_added_as_its_page_has_it(tmp_path: Path) -> None:
    declared, _, add = python("commands").partition("\n\n\n")
    (tmp_path / "shop.py").write_text(f"import rota\napp = rota.App()\n{declared}")
    (tmp_path / "convert.sh").write_text(CONVERT)
    (tmp_path / "convert.sh").chmod(0o755)
    script = [CREW.format(queue="convert"), f"python -c 'from shop import convert\n{add}'", DONE, "rota logs 1"]
    assert bash("\n".join(script), tmp_path).splitlines()[-1] == "./a.wav"


def test_any_function_is_a_source_as_its_page_has_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TAG + python("sources", 1))
    (tmp_path / "incoming").mkdir()
    for name in ("a.wav", "b.wav"):
        (tmp_path / "incoming" / name).touch()
    done = "until rota source list --json | jq -e '.[0].success_count == 2'; do kill -0 $!; done"
    assert bash(CREW.format(queue="tag") + done, tmp_path)


@pytest.mark.parametrize("page", ["docs/howto/memory-leaks.md", "docs/howto/tracking.md", "docs/reference/settings.md"])
def test_the_settings_of_a_page_are_known(page: str, tmp_path: Path) -> None:
    (settings,) = blocks(ROOT / page, "toml")
    (tmp_path / "rota.toml").write_text(settings)
    (tmp_path / "shop.py").write_text(python("crew"))
    assert bash("rota init . > made; rota doctor", tmp_path)
