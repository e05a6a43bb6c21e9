"""A crew whose link to PostgreSQL breaks: handlers go on, outcomes wait, and every commit in doubt is resolved."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from rota import App
from rota.core.times import SECOND
from rota.settings import Settings
from tests.support.cable import CUT_AFTER, CUT_BEFORE, HOLD, Cable, cable
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.shell import ROTA, environment
from tests.support.stores import database_for_tests, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Remote:
    """A crew at the far end of a cable, and an application that is not."""

    def __init__(self, folder: Path, link: Cable) -> None:
        direct = url_of("postgres", folder)
        self.link = link
        self.near = App(direct, Settings())
        self.near.store.queues.set("tag", fence="tell")
        self.crew = Crew(folder, ROTA_DB=f"{link.url}?{direct.partition('?')[2]}", ROTA_RESTART_BACKOFF="50ms")
        self._direct = direct
        self._beside: subprocess.Popen[bytes] | None = None

    def add(self, kind: str, **payload: object) -> int:
        return self.near.enqueue(self.crew.new(kind, **payload)).id

    def verbs(self, job: int) -> list[str]:
        return [run.verb for run in self.near.claims.runs(job)]

    def start_beside(self) -> None:
        """Another orchestrator, whose link is whole."""
        words = [ROTA, "worker", "start", "--app", "shop:app", "--queue", "tag", "--name", "near"]
        env = environment(**{**self.crew.env, "ROTA_DB": self._direct})
        with (self.crew.folder / "near.log").open("ab") as log:
            self._beside = subprocess.Popen(words, cwd=self.crew.folder, env=env, stderr=log, stdin=subprocess.DEVNULL)

    def break_link(self) -> None:
        self.link.down = True
        self.link.cut()

    def end(self) -> None:
        self.link.down = False
        if self._beside is not None:
            self._beside.send_signal(signal.SIGTERM)
            assert self._beside.wait(60) == 0
        self.crew.end()
        self.near.close()


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Remote]:
    with cable(database_for_tests()) as link:
        remote = Remote(tmp_path, link)
        yield remote
        remote.end()


def test_in_an_outage_handlers_go_on_and_their_outcomes_wait(remote: Remote) -> None:
    """It lasts longer than the lease; but nobody else renewed meanwhile either, so nobody is judged by it."""
    crew = remote.crew
    crew.start("tag=2")
    before, during = remote.add("hold", name="a"), remote.add("hold", name="b")
    eventually(lambda: crew.held_by("a") and crew.held_by("b"), within=60)
    broke = time.monotonic()
    remote.break_link()
    crew.let_go("a")
    eventually(lambda: len(crew.said("could not be renewed for 10s")) == 2, within=30)
    eventually(lambda: time.monotonic() - broke > 16, within=30)
    remote.near.store.tick()
    assert [job.status for job in map(remote.near.jobs.get, (before, during))] == ["active"] * 2
    remote.link.down = False
    (done,) = remote.near.jobs.wait([before], "done", 60 * SECOND)
    crew.let_go("b")
    remote.near.jobs.wait([during], "done", 60 * SECOND)
    assert (done.result, remote.verbs(before), remote.verbs(during)) == (crew.held_by("a"), ["finish"], ["finish"])
    assert crew.deaths() == []
    assert 1 <= len(crew.said("trying again until it answers")) <= 4, "it says so now and then"
    assert len(crew.said("the store answers again")) == 1
    assert crew.stop() == 0


def test_a_worker_that_dies_in_an_outage_spends_an_attempt_of_its_job_though_an_exchange_is_in_doubt(
    remote: Remote,
) -> None:
    """The exchange comes first when the link heals, and finds out what is held: the job is, until its death is told."""
    crew = remote.crew
    crew.start("tag=2")
    told, struck = remote.add("hold", name="a"), remote.add("hold", name="b")
    eventually(lambda: crew.held_by("a") and crew.held_by("b"), within=60)
    remote.break_link()
    crew.let_go("a")
    eventually(lambda: crew.said("trying again until it answers"))
    os.kill(crew.held_by("b"), signal.SIGKILL)
    eventually(lambda: crew.said("ended by signal 9"))
    crew.let_go("b")
    remote.link.down = False
    (_, again) = remote.near.jobs.wait([told, struck], "done", 60 * SECOND)
    assert (again.attempts, again.deaths, remote.verbs(struck)) == (2, 1, ["die", "finish"])
    assert [death.job for death in crew.deaths()] == [struck]
    assert crew.stop() == 0


def test_a_commit_in_doubt_is_resolved_and_no_job_runs_twice(remote: Remote) -> None:
    crew = remote.crew
    crew.start("tag=4")
    eventually(lambda: crew.up(4), within=60)
    jobs, faults = list[int](), [CUT_AFTER, CUT_BEFORE, HOLD, CUT_AFTER]
    for turn in range(24):
        jobs += [remote.add("tag", n=n) for n in range(5 * turn, 5 * turn + 5)]
        remote.link.release.set()
        met = remote.link.faults
        remote.link.fault = faults[turn % len(faults)]
        eventually(lambda met=met: remote.link.faults > met, within=60)  # type: ignore[misc]
    remote.link.fault = None
    remote.near.jobs.wait(jobs, "done", 60 * SECOND)
    assert sorted(crew.ledger(), key=int) == [str(n) for n in range(120)]
    verbs = [remote.verbs(job) for job in jobs]
    assert {each[-1] for each in verbs} == {"finish"}
    assert {verb for each in verbs for verb in each[:-1]} <= {"release"}, "a claim whose answer was lost went back"
    assert remote.link.faults >= 24 and crew.said("trying again until it answers")
    assert crew.deaths() == []
    assert crew.stop() == 0


def test_a_crew_that_is_cut_off_alone_loses_its_work_to_others_and_carries_on_when_the_link_heals(
    remote: Remote,
) -> None:
    crew = remote.crew
    crew.start("tag=1")
    job = remote.add("hold", name="a")
    first = eventually(lambda: crew.held_by("a"), within=60)
    remote.start_beside()
    eventually(lambda: len(remote.near.store.orchestrators.live()) == 2, within=60)
    cut_at = remote.near.store.now()
    remote.break_link()
    second = eventually(lambda: crew.held_by("a") not in (0, first) and crew.held_by("a"), within=30)
    assert remote.near.jobs.get(job).claimed_at - cut_at < 16 * SECOND  # type: ignore[operator]
    remote.link.down = False
    crew.let_go("a")
    (done,) = remote.near.jobs.wait([job], "done", 60 * SECOND)
    assert done.result == second
    assert remote.verbs(job) == ["die", "finish"]
    eventually(lambda: len(remote.near.store.orchestrators.live()) == 2, within=60)
    remote.near.jobs.wait([remote.add("tag", n=n) for n in range(20)], "done", 60 * SECOND)
    assert crew.ledger().count("7") == 1
    assert crew.stop() == 0
