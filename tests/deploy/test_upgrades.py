"""Upgrades: what a running crew, its orphans and its callers see when the next rota has moved the schema on."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NamedTuple

import pytest

from rota.store.migrate import LATEST
from tests.support.crews import Crew, is_alive, told
from tests.support.eventually import eventually
from tests.support.releases import NEXT, next_release
from tests.support.stores import STORES, exports, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = "SELECT max(number) FROM migration"


@pytest.fixture(params=STORES)
def crew(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    crew = Crew(tmp_path, **exports(request.param, tmp_path))
    yield crew
    crew.end()


def upgrade(crew: Crew, oldest: int = LATEST) -> None:
    """What is started from now on is of the next release, and the schema is its own."""
    crew.env["PYTHONPATH"] = next_release(crew.folder / "next", oldest)
    assert f"schema {LATEST + 1}: applied {LATEST + 1}" in crew.call("migrate")


def of_this_release(crew: Crew) -> None:
    """What is started from now on is of this release again."""
    del crew.env["PYTHONPATH"]


class Orphan(NamedTuple):
    """A job, the process that runs it, and the one that helps that process."""

    name: str
    job: int
    worker: int
    helper: int


def hold(crew: Crew, name: str) -> int:
    """A job that runs until the test lets it go."""
    job = crew.add("hold", name=name)
    eventually(lambda: crew.held_by(name))
    return job


def left_alone(crew: Crew, name: str, job: int) -> Orphan:
    """Kill the orchestrator of the worker that has this job; its helper has the store open when this returns."""
    os.kill(crew.pid, signal.SIGKILL)
    crew.wait()
    eventually(lambda: crew.app.jobs.get(job).lease_expires_at)
    worker = crew.held_by(name)
    (helper,) = [pid for pid in crew.processes() if f"ROTA_WORKER_PID={worker}\0".encode() in told(pid)]
    return Orphan(name, job, worker, helper)


def test_a_crew_that_runs_goes_on_beside_a_newer_schema_and_what_starts_is_told_to_upgrade(crew: Crew) -> None:
    crew.start("tag=1")
    held, waiting = hold(crew, "a"), crew.add("tag", n=1)
    upgrade(crew)
    of_this_release(crew)
    crew.let_go("a")
    assert [job.status for job in crew.done(held, waiting)] == ["done", "done"]
    assert crew.done(crew.add("tag", n=2))[0].result == 2
    assert "upgrade it to begin" in crew.call("add", "late", code=1)
    assert "done" in crew.call("show", str(held))
    assert crew.stop() == 0
    assert "upgrade it to begin" in crew.call("orchestrator", "start", "--app", "shop:app", code=1)


def test_orphans_of_the_release_before_settle_what_they_hold_after_the_schema_has_moved(crew: Crew) -> None:
    """One opened the store before the upgrade, one after; each commits its job once, beside the upgraded crew."""
    crew.start("tag=1")
    early = left_alone(crew, "a", hold(crew, "a"))
    crew.start("tag=2")
    job = hold(crew, "b")
    upgrade(crew)
    late = left_alone(crew, "b", job)
    crew.start("tag=3")
    assert crew.done(crew.add("tag", n=1))[0].result == 1
    assert [each.version for each in crew.app.store.orchestrators.live()] == [NEXT]
    assert rows(crew.app.store, SCHEMA) == [(LATEST + 1,)]
    for orphan in (early, late):
        assert is_alive(orphan.worker) and is_alive(orphan.helper)
        assert b"PYTHONPATH=" not in told(orphan.worker) + told(orphan.helper), "both are of the release before"
        crew.let_go(orphan.name)
        is_committed_once(crew, orphan)
    eventually(lambda: crew.up(3))
    assert crew.stop() == 0


def is_committed_once(crew: Crew, orphan: Orphan) -> None:
    """With what the process that began it told, which its helper alone has heard."""
    (job,) = crew.done(orphan.job)
    assert (job.result, job.attempts, job.deaths) == (orphan.worker, 1, 0)
    (run,) = crew.app.claims.runs(orphan.job)
    assert (run.verb, run.worker_id) == ("finish", job.worker_id)
    assert [line for line in crew.ledger() if f"hold {orphan.name}" in line] == [f"hold {orphan.name} {orphan.worker}"]
    eventually(lambda: not is_alive(orphan.worker) and not is_alive(orphan.helper))


def test_code_that_is_older_than_the_oldest_allowed_is_refused(crew: Crew) -> None:
    crew.add("tag", n=1)
    upgrade(crew, oldest=LATEST + 1)
    of_this_release(crew)
    assert "upgrade" in crew.call("list", code=1)
