"""A crew whose PostgreSQL server crashes under load, or whose connections are cut again and again."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota import App
from rota.core.claim import Done
from rota.core.errors import StoreError
from rota.core.job import NewJob
from rota.core.times import SECOND
from rota.settings import Settings
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.postgres import own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.demo.postgres_server import OwnServer
    from rota.store.workers.crews import Live

BATCH = 20
LEASE = 5  # seconds, by what the test asks of its crews; it is 15 else
AWAY = 4.0 * LEASE
FENCED = '''
@app.task(queue="alone")
def alone() -> int:
    """Hold as `hold` does, but in a queue whose jobs end when the lease could not be renewed."""
    return hold("e")
'''


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
            new = [self._crew.new("tag", n=n).replace(key=str(n)) for n in numbers]
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


class Loop:
    """A program that registered and beats; while the server is away it tries again, as a loop would."""

    def __init__(self, crew: Crew, every: int) -> None:
        self._app = App(crew.env["ROTA_DB"], Settings())
        self.id = self._app.workers.register("loop", every).id
        self._every = every / SECOND
        self._enough = threading.Event()
        self.missed = 0
        self._thread = threading.Thread(target=self._beat)
        self._thread.start()

    def _beat(self) -> None:
        while not self._enough.wait(self._every / 4):
            try:
                self._app.workers.heartbeat(self.id)
            except StoreError:
                self.missed += 1
        self._app.close()

    def stop(self) -> None:
        self._enough.set()
        self._thread.join(60)


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
            have = len(feeder.jobs)
            eventually(lambda have=have: len(feeder.jobs) > have, within=60)  # type: ignore[misc]
            crew.done(feeder.jobs[-1])  # else two crashes could be one outage to the crew
    finally:
        jobs = feeder.stop()
    check(crew, jobs)
    assert crew.said("the store answers again")


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
            deadline = time.monotonic() + 60
            while ended <= 25 or len(feeder.jobs) <= 1000:
                assert time.monotonic() < deadline, (ended, len(feeder.jobs))
                ended += len(connection.execute(cut).fetchall())
                time.sleep(0.2)
    finally:
        jobs = feeder.stop()
    check(crew, jobs)


def test_a_server_that_is_away_for_longer_than_a_lease_costs_nobody_his_claim(crew: Crew, server: OwnServer) -> None:
    """Fault 35a: two crews with jobs in hand, and a worker that registered, beats and holds a job of its own.

    It is away for four leases. A queue that must never overlap is beside: its job alone is ended, and runs again.
    """
    crew.teach(FENCED)
    crew.shorten_leases(LEASE)
    crew.call("queue", "set", "alone", "--fence", "end")
    crew.start("tag=2", "--pool", "alone=1")
    beside = crew.start_beside(2)
    jobs = [crew.add("hold", name=name) for name in "abcd"]
    fenced = crew.app.enqueue(NewJob("fenced", queue="alone", kind="alone")).id
    eventually(lambda: all(crew.held_by(name) for name in "abcde"), within=60)
    ended = crew.held_by("e")
    loop = Loop(crew, 4 * SECOND)
    try:
        by_hand = crew.app.enqueue(NewJob("by hand", queue="other")).id
        claim = crew.app.claims.claim(by_hand, loop.id)
        crew.app.workers.heartbeat(loop.id)
        expires = [each.lease_expires_at or 0 for each in live(crew)]
        tokens = [crew.app.jobs.get(id).token for id in jobs]
        server.crash()
        away_since = time.monotonic()
        crew.let_go("a")  # its outcome waits
        eventually(lambda: time.monotonic() - away_since > AWAY, within=2 * AWAY, every=0.1)
        server.start()
        back_at = eventually(lambda: now(crew)) or 0
        assert len(expires) == 2 and 0 < max(expires) < back_at, "every lease is past its end by now"
        more = [crew.add("tag", n=n) for n in range(20)]
        crew.done(jobs[0], *more)
        eventually(
            lambda: all((each.lease_expires_at or 0) > max(expires) for each in live(crew)) and len(live(crew)) == 2
        )
        crew.app.store.tick()
        crew.app.reconcile()
        assert [crew.app.jobs.get(id).token for id in (*jobs[1:], by_hand)] == [*tokens[1:], claim.token]
        again = eventually(lambda: crew.held_by("e") != ended and crew.held_by("e"))
        for name in "bcde":
            crew.let_go(name)
        crew.done(*jobs[1:])
        assert crew.done(fenced)[0].result == again, "ended, and run anew"
        crew.app.claims.settle(claim, Done())
        assert loop.missed and crew.app.workers.get(loop.id).status != "dead"
    finally:
        loop.stop()
    for id in (*jobs, *more, by_hand):
        assert [run.verb for run in crew.app.claims.runs(id)] == ["finish"], "no `die`, no `expire`"
    assert [run.verb for run in crew.app.claims.runs(fenced)] == ["die", "finish"]
    assert len(crew.ledger()) == 24 + 2, "each ran once, and the fenced one twice"
    assert [death.job for death in crew.deaths()] == [fenced], "nobody died but who held it"
    beside.terminate()
    assert beside.wait(60) == 0
    assert crew.stop() == 0


def now(crew: Crew) -> int | None:
    """The server's time; the first use after a crash finds out that the link is gone."""
    try:
        return crew.app.store.now()
    except StoreError:
        return None


def live(crew: Crew) -> list[Live]:
    return crew.app.store.orchestrators.live()


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
