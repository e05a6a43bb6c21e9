"""Chains and batches with a real crew: workers read the results of what came before, on a database and over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.job import NewJob
from rota.core.times import SECOND
from tests.support.far import Far

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.crews import Crew

TASKS = """
@app.task(queue="tag")
def total(ctx):
    return sum(each.result for each in ctx.results() if each.status == "done")


@app.task(queue="tag")
async def calm(ctx):
    return [each.title for each in ctx.results()]


@app.command(queue="tag", argv=["sh", "-c", "rota results --json | jq -c 'map(.result)'"])
def shell(): pass
"""


def steps(*last: str) -> list[NewJob]:
    """Three that are done, one that fails, and those that follow them all."""
    first = [NewJob("tag", "tag", "tag", payload={"n": n}) for n in (1, 2, 3)]
    failing = NewJob("broken", "tag", "broken", payload={"n": 4}, max_attempts=1)
    return [*first, failing, *(NewJob(kind, "tag", kind, follows=range(4), until="final") for kind in last)]


@pytest.mark.both_stores
def test_workers_read_what_the_jobs_said_that_theirs_waited_for(crew: Crew) -> None:
    crew.teach(TASKS)
    ids = crew.app.jobs.add_many(steps("total", "calm", "shell"))
    crew.start("tag=2")
    found = crew.app.jobs.wait(ids[4:], "done", 60 * SECOND)
    assert [job.result for job in found] == [6, ["tag", "tag", "tag", "broken"], [1, 2, 3, None]]


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    far = Far(tmp_path)
    yield far
    far.end()


def test_so_do_workers_that_reach_only_the_api(far: Far) -> None:
    far.host("one", TASKS)
    far.start("one")
    ids = far.app.jobs.add_many(steps("total", "shell"))
    found = far.app.jobs.wait(ids[4:], "done", 60 * SECOND)
    assert [job.result for job in found] == [6, [1, 2, 3, None]]
