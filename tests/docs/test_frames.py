"""The frames page shows each frame as it is spoken."""

from __future__ import annotations

import re

from rota.core import death
from rota.core.claim import Done, Failed, Released, Snoozed
from rota.core.frames import assignment, outcomes
from rota.core.frames import codec as frames
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs/reference/frames.md"


def examples() -> list[frames.Frame]:
    lines = [line for block in blocks(PAGE, "text") for line in block.splitlines()]
    found = [frames.parse(line.encode()) for line in lines]
    assert all(found), lines
    return [frame for frame in found if frame is not None]


def test_every_frame_that_is_spoken_has_an_example_that_is_one() -> None:
    spoken = {frames.HELLO, frames.HEALTH, frames.PROGRESS, frames.LOG, frames.DONE, frames.CHECKPOINT, frames.RETURNED}
    spoken |= {frames.RUN, frames.RECALL, frames.CANCEL, frames.STOP, frames.LOST, frames.RENEWED}
    assert {frame.kind for frame in examples()} == spoken


def test_the_outcomes_are_those_that_an_orchestrator_takes() -> None:
    told = [outcomes.decode(frame.body) for frame in examples() if frame.kind == frames.DONE]
    assert [type(each) for each in told] == [Done, Failed, Snoozed, Released, Released]


def test_the_job_is_one_that_a_worker_takes() -> None:
    (run,) = (frame for frame in examples() if frame.kind == frames.RUN)
    assert all(assignment.decode(job) for job in run.body["jobs"])


def test_the_exit_codes_are_those_of_the_code() -> None:
    codes = {int(code) for code in re.findall(r"^\| `(\d+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)}
    assert codes == {0, *(value for name, value in vars(death).items() if name.startswith("EXIT_"))}
