"""A crew on PostgreSQL: jobs are done, a killed worker's job runs again, a stop leaves nothing behind."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rota.core.times import SECOND
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.stores import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path, ROTA_DB=url_of("postgres", tmp_path), ROTA_RESTART_BACKOFF="50ms")
    yield crew
    crew.end()


def test_a_crew_works_a_queue_off_and_a_killed_workers_job_runs_again(crew: Crew) -> None:
    jobs = crew.app.enqueue_many([crew.new("tag", n=n) for n in range(30)])
    crew.start()
    for job in jobs:
        assert job.wait(60).status == "done"
    assert sorted(crew.ledger()) == sorted(str(n) for n in range(30))
    held = crew.add("hold", name="a")
    first = eventually(lambda: crew.held_by("a"), within=60)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: crew.held_by("a") not in (0, first), within=60)
    crew.let_go("a")
    (done,) = crew.app.jobs.wait([held], "done", 60 * SECOND)
    assert [run.verb for run in crew.app.claims.runs(done.id)] == ["die", "finish"]
    assert crew.stop() == 0
    assert crew.app.workers.list() == []
