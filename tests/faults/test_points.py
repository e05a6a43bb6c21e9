"""Killed or stopped at the worst points of the program, which are named in it."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import COMPLETED
from tests.support.crews import is_alive
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.crews import Crew

HOOK = Path(__file__).parents[1] / "support" / "points"
JOBS = 60


def strike(crew: Crew, point: str, number: signal.Signals, nth: int, word: str) -> Path:
    """From now on the processes of this crew look out for the point; the file that tells that one was there."""
    file = crew.folder / "struck"
    crew.env["PYTHONPATH"] = str(HOOK)
    crew.env["ROTA_TEST_POINT"] = f"{point} {number.name} {nth} {word} {file}"
    return file


def executed(crew: Crew) -> Counter[int]:
    return Counter(int(line) for line in crew.ledger() if line.isdigit())


def check_all_settled_once(crew: Crew, ids: list[int]) -> None:
    crew.done(*ids)
    assert crew.stop() == 0
    assert all([run.status for run in crew.app.claims.runs(id)].count(COMPLETED) == 1 for id in ids)
    assert crew.app.jobs.list("active") == []
    eventually(lambda: crew.processes() == [])


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("point", ["store.commit", "store.committed", "crew.hand", "crew.started"])
def test_an_orchestrator_killed_there_costs_no_job_a_second_run(crew: Crew, point: str, nth: int) -> None:
    """Whoever is left finishes and tells; the next orchestrator has all that was not begun."""
    ids = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(JOBS))]
    struck = strike(crew, f"rota.{point}", signal.SIGKILL, nth, "orchestrator")
    crew.start("tag=3")
    assert crew.wait() == -signal.SIGKILL
    assert struck.exists()
    crew.start("tag=3")
    check_all_settled_once(crew, ids)
    assert executed(crew) == dict.fromkeys(range(JOBS), 1)
    assert sum(slot.history.lifetime for slot in crew.app.store.slots.all()) == 0


def test_an_orchestrator_killed_between_a_death_and_its_certificate_writes_it_the_next_time(crew: Crew) -> None:
    strike(crew, "rota.crew.reaped", signal.SIGKILL, 1, "orchestrator")
    crew.start("tag=2")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    os.kill(pid, signal.SIGKILL)
    assert crew.wait() == -signal.SIGKILL
    crew.let_go("a")
    crew.start("tag=2")
    check_all_settled_once(crew, [id])
    assert (crew.app.jobs.get(id).attempts, crew.app.jobs.get(id).deaths) == (2, 1)
    assert [certificate.job for certificate in crew.deaths() if certificate.job] == [id]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name)
def test_a_worker_that_ends_or_freezes_before_it_told_what_came_of_its_job(crew: Crew, number: signal.Signals) -> None:
    """Fault 2: that one runs again, those behind it are run once, and one outcome of each counts."""
    crew.env |= {"ROTA_FRAME_INTERVAL": "100ms", "ROTA_SILENT_INTERVAL": "1s"}
    ids = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(JOBS))]
    struck = strike(crew, "rota.worker.ended", number, 7, "rota.worker")
    crew.start("tag=2")
    check_all_settled_once(crew, ids)
    assert not is_alive(int(struck.read_text()))
    assert sorted(executed(crew).values()) == [1] * (JOBS - 1) + [2]
    assert [certificate.signal for certificate in crew.deaths()] == [signal.SIGKILL]


def test_an_orchestrator_frozen_before_a_commit_is_waited_for_and_costs_no_job_a_second_run(crew: Crew) -> None:
    """Fault 7: it has the write lock of SQLite, or rows of PostgreSQL; another crew names it, or works around it."""
    ids = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(JOBS))]
    struck = strike(crew, "rota.store.commit", signal.SIGSTOP, 6, "orchestrator")
    crew.start("tag=2")
    frozen = int(eventually(lambda: struck.exists() and struck.read_text()))
    before = executed(crew)
    beside = crew.start_beside()
    eventually(lambda: crew.said(f"process {frozen} (") or executed(crew) - before)
    os.kill(frozen, signal.SIGCONT)
    crew.done(*ids)
    beside.terminate()
    assert beside.wait(60) == 0
    check_all_settled_once(crew, ids)
    assert executed(crew) == dict.fromkeys(range(JOBS), 1)


def test_every_point_is_explained() -> None:
    root = HOOK.parents[2]
    sources = (root / "src").rglob("*.py")
    named = {point for source in sources for point in re.findall(r'sys\.audit\("([^"]+)"', source.read_text())}
    page = (root / "docs" / "decisions" / "0030-points.md").read_text()
    assert named == set(re.findall(r"`(rota\.[a-z.]+)`", page))
