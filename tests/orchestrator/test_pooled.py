"""A crew that reaches PostgreSQL only through pgbouncer in transaction mode."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.pooler import pooled
from tests.support.stores import database_for_tests, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    schema = url_of("postgres", tmp_path).partition("?")[2]
    with pooled(database_for_tests()) as pool:
        crew = Crew(tmp_path, ROTA_DB=f"{pool}?{schema}", ROTA_RESTART_BACKOFF="50ms", ROTA_POLL_INTERVAL="100ms")
        yield crew
        crew.end()


def test_through_a_pooler_a_crew_works_hears_of_jobs_and_runs_a_killed_workers_job_again(crew: Crew) -> None:
    crew.start()
    assert "through a pooler: others are heard by polling" in crew.call("doctor")
    jobs = [crew.add("tag", n=n) for n in range(10)]
    crew.done(*jobs)
    assert sorted(crew.ledger(), key=int) == [str(n) for n in range(10)]
    crew.call("pause", "tag")
    crew.call("resume", "tag")
    held = crew.add("hold", name="a")
    first = eventually(lambda: crew.held_by("a"), within=60)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: crew.held_by("a") not in (0, first), within=60)
    crew.let_go("a")
    crew.done(held)
    assert [run.verb for run in crew.app.claims.runs(held)] == ["die", "finish"]
    assert crew.stop() == 0
    assert crew.app.workers.list() == [] == crew.processes()
