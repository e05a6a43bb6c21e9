"""What `rota run` shows: a line for each job that ends, few of many, and never at the crew's cost."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done, Failed, Released, Returned, Snoozed
from rota.core.frames.assignment import Assignment
from rota.core.times import MINUTE
from rota.orchestrator.console import MOST_AT_ONCE, Line, ended, shown
from tests.support.eventually import eventually
from tests.support.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

    from rota.core.claim import Outcome

CHATTY = """
from rota import App

app = App()


@app.task()
def talk(ctx, lines: int = 0) -> None:
    for n in range(lines):
        ctx.log("x" * 200)
"""


def held(kind: str = "tag", title: str = "Tag a", attempt: int = 1) -> Assignment:
    return Assignment(7, 1, "worker-1", "q", kind, title, None, 0, attempt, 3, None, None)


@pytest.mark.parametrize(
    ("outcome", "attempt", "told"),
    [
        (Done(None), 1, "tag (Tag a): done"),
        (Done('{"n":1}'), 1, 'tag (Tag a): done, {"n":1}'),
        (Done(f'"{"x" * 500}"'), 1, f'tag (Tag a): done, "{"x" * 99}…'),
        (Failed("no"), 1, "tag (Tag a): FAILED, no · attempt 1 of 3, it is tried again; `rota show 7` has its runs"),
        (Failed("no"), 3, "attempt 3 of 3, `rota retry 7` once it is mended"),
        (Failed("no", again=False), 1, "attempt 1 of 3, `rota retry 7` once it is mended"),
        (Snoozed(MINUTE, "busy"), 1, "tag (Tag a): again in 1m, busy"),
        (Released("later"), 1, "tag (Tag a): given back, later"),
        (Returned(), 1, "tag (Tag a): given back"),
    ],
)
def test_each_way_to_end_has_a_line(outcome: Outcome, attempt: int, told: str) -> None:
    assert told in ended(held(attempt=attempt), outcome)


def test_a_title_that_says_no_more_than_the_kind_is_said_once() -> None:
    assert ended(held("tag", "tag"), Done(None)) == "tag: done"
    assert ended(held("", "Tag a"), Done(None)) == "Tag a: done"


def test_of_many_that_went_well_the_number_is_told_and_what_went_wrong_is_not_left_out() -> None:
    few = [Line(f"job {n}", ordinary=True) for n in range(MOST_AT_ONCE)]
    assert shown(few) == [line.text for line in few]
    many = [*few, Line("FAILED"), Line("job last", ordinary=True)]
    lines = shown(many)
    assert lines[:2] == ["FAILED", "job last"] and lines[2].endswith(f"and {MOST_AT_ONCE} more went well")
    assert len(lines) == 3


def test_a_crew_whose_lines_nobody_reads_works_on(tmp_path: Path) -> None:
    shell = Shell(tmp_path, ROTA_HTTP_PORT="0")
    shell.say("init")
    (tmp_path / "app.py").write_text(CHATTY)
    run = shell.start("run")  # its stdout is a pipe of 64 KiB
    ids = [shell.add("Talk", "--kind", "talk", "--payload", '{"lines": 2000}') for _ in range(3)]
    eventually(lambda: [shell.ask("show", id)["status"] for id in ids] == ["done"] * 3)
    last = shell.add("Talk", "--kind", "talk")
    eventually(lambda: shell.ask("show", last)["status"] == "done")
    run.send_signal(signal.SIGINT)
    try:
        assert run.wait(60) == 0, "it leaves, too"
    finally:
        run.kill()
        run.communicate()
