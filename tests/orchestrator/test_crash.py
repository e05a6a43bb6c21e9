"""A crew whose PostgreSQL server crashes under load, or whose connections are cut again and again."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota import App
from rota.core.errors import StoreError
from rota.core.times import SECOND
from rota.settings import Settings
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.postgres import own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.demo.server import OwnServer

BATCH = 20


class Feeder:
    """A program that adds jobs beside the crew without end; one whose commit is in doubt is added again by its key."""

    def __init__(self, crew: Crew) -> None:
        self._app = App(crew.env["ROTA_DB"], Settings())
        self._crew = crew
        self._enough = threading.Event()
        self.jobs: list[int] = []
        self._thread = threading.Thread(target=self._feed)
        self._thread.start()

    def _feed(self) -> None:
        while not self._enough.wait(0.02):
            numbers = range(len(self.jobs), len(self.jobs) + BATCH)
            new = [self._crew.new("tag", n=n).but(key=str(n)) for n in numbers]
            while True:
                try:
                    self.jobs += [job.id for job in self._app.enqueue_many(new)]
                    break
                except StoreError:
                    time.sleep(0.02)
        self._app.close()

    def stop(self) -> list[int]:
        """The jobs that were acknowledged, all that there are."""
        self._enough.set()
        self._thread.join(60)
        return self.jobs


@pytest.fixture
def server() -> Iterator[OwnServer]:
    with own(durable=True) as server:
        yield server


@pytest.fixture
def crew(server: OwnServer, tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path, ROTA_DB=server.url, ROTA_RESTART_BACKOFF="50ms", PGAPPNAME="crew")
    yield crew
    crew.end()


def test_a_server_that_crashes_under_load_costs_no_job_and_none_runs_twice(crew: Crew, server: OwnServer) -> None:
    """Fault 33: `pg_ctl restart -m immediate`, again and again."""
    crew.start("tag=4")
    feeder = Feeder(crew)
    try:
        for _ in range(4):
            have = len(crew.ledger())
            eventually(lambda have=have: len(crew.ledger()) > have + 100, within=60)  # type: ignore[misc]
            server.crash()
            server.start()
    finally:
        jobs = feeder.stop()
    check(crew, jobs)
    assert len(crew.said("the store answers again")) >= 4


def test_backends_that_are_ended_five_times_a_second_cost_no_job_and_none_runs_twice(
    crew: Crew, server: OwnServer
) -> None:
    """Fault 34."""
    crew.start("tag=4")
    feeder = Feeder(crew)
    try:
        eventually(crew.ledger, within=60)
        ended = 0
        with psycopg.connect(server.url, autocommit=True) as connection:
            cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'crew'"
            until = time.monotonic() + 10
            while time.monotonic() < until:
                ended += len(connection.execute(cut).fetchall())
                time.sleep(0.2)
    finally:
        jobs = feeder.stop()
    check(crew, jobs)
    assert ended > 20 and len(jobs) > 1000


def check(crew: Crew, jobs: list[int]) -> None:
    """Each job that was acknowledged was begun once and committed once, and there are no others."""
    for at in range(0, len(jobs), 1000):
        crew.app.jobs.wait(jobs[at : at + 1000], "done", 60 * SECOND)
    assert sorted(crew.ledger(), key=int) == [str(n) for n in range(len(jobs))]
    with psycopg.connect(crew.env["ROTA_DB"]) as connection:
        assert connection.execute("SELECT count(*) FROM rota.job").fetchone() == (len(jobs),)
        runs = connection.execute("SELECT verb, reason, count(*), count(DISTINCT job) FROM rota.run GROUP BY 1, 2")
        found = {(verb, reason): (count, different) for verb, reason, count, different in runs}
    assert found == {("finish", None): (len(jobs), len(jobs))}, "claims whose answer was lost go back without a trace"
    assert all(line[:2].isdigit() and line[2] == ":" for line in crew.log.read_text().splitlines()), "lines of ours"
    assert crew.deaths() == []
    assert crew.stop() == 0
