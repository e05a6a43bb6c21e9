"""Killed or stopped at the worst points of the program, which are named in it."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import COMPLETED
from tests.support.crews import POINTS, children, is_alive
from tests.support.eventually import eventually
from tests.support.struck import strike, struck_by

if TYPE_CHECKING:
    from tests.support.crews import Crew

pytestmark = pytest.mark.both_stores

JOBS = 60


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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name)
def test_an_orchestrator_that_ends_or_freezes_between_a_death_and_its_certificate_writes_it_afterwards(
    crew: Crew, number: signal.Signals
) -> None:
    struck = strike(crew, "rota.crew.reaped", number, 1, "orchestrator")
    crew.start("tag=2")
    id = crew.add("hold", name="a")
    pid = eventually(lambda: crew.held_by("a"))
    os.kill(pid, signal.SIGKILL)
    frozen = struck_by(struck)
    crew.let_go("a")
    if number == signal.SIGSTOP:
        os.kill(frozen, signal.SIGCONT)
    else:
        assert crew.wait() == -signal.SIGKILL
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
    frozen = struck_by(struck)
    before = executed(crew)
    beside = crew.start_beside()
    eventually(lambda: crew.said(f"process {frozen} (") or executed(crew) - before)
    os.kill(frozen, signal.SIGCONT)
    crew.done(*ids)
    beside.terminate()
    assert beside.wait(60) == 0
    check_all_settled_once(crew, ids)
    assert executed(crew) == dict.fromkeys(range(JOBS), 1)


@pytest.mark.parametrize(  # on SQLite only where its other thread cannot have the write lock
    ("crew", "point", "nth"),
    [("sqlite", "store.committed", 6), ("postgres", "crew.hand", 1), ("postgres", "crew.started", 2)],
    indirect=["crew"],
)
def test_an_orchestrator_frozen_there_past_its_lease_changes_nothing_when_it_goes_on(
    crew: Crew, point: str, nth: int
) -> None:
    """Fault 6, at the worst instants: others take all that it claimed; what its workers do of it later is refused."""
    crew.shorten_leases(5)
    ids = [job.id for job in crew.app.enqueue_many(crew.new("tag", n=n) for n in range(JOBS))]
    struck = strike(crew, f"rota.{point}", signal.SIGSTOP, nth, "orchestrator")
    crew.start("tag=3")
    frozen = struck_by(struck)
    beside = crew.start_beside()
    before = [(job.id, job.token, job.attempts, job.result) for job in crew.done(*ids)]
    eventually(lambda: len(crew.app.store.orchestrators.live()) == 1)
    os.kill(frozen, signal.SIGCONT)
    eventually(lambda: crew.said("the crew begins anew"))
    crew.done(crew.add("tag", n=JOBS))
    beside.terminate()
    assert beside.wait(60) == 0
    eventually(lambda: len(children(crew.pid)) == 3 and crew.up(3))
    check_all_settled_once(crew, ids)
    assert [(job.id, job.token, job.attempts, job.result) for job in map(crew.app.jobs.get, ids)] == before


def test_every_point_is_explained() -> None:
    root = POINTS.parents[2]
    sources = (root / "src").rglob("*.py")
    named = {point for source in sources for point in re.findall(r'sys\.audit\("([^"]+)"', source.read_text())}
    page = (root / "docs" / "decisions" / "0030-points.md").read_text()
    assert named == set(re.findall(r"`(rota\.[a-z.]+)`", page))
