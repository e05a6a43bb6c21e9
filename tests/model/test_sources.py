"""Sources on both databases in step: filled, worked on, failed, lost, forgotten, in any order, they answer the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done, Failed, Released, Snoozed
from rota.core.errors import RotaError
from rota.core.event import JobMoved, SourceChanged, WorkerChanged
from rota.core.job import NewJob
from rota.core.source import Declared, is_internal
from rota.core.times import MINUTE, SECOND
from rota.core.worker import Dead
from rota.store.sources import Found
from tests.model.instep import compare_logs, in_step
from tests.support.clock import FakeClock
from tests.support.stores import do_not_wait_for_the_disk, drop, make_store
from tests.support.work import Crew

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.core.frames.assignment import Assignment
    from rota.store.store import Store

pytestmark = pytest.mark.postgres

STEPS = 120
NAMES = ("files", "mails")
KEYS = [str(n) for n in range(12)]
LIKE = NewJob("tag", "tag", "tag", max_attempts=2)
OUTCOMES = (Done("1"), Done("1"), Done("1"), Failed("x"), Failed("x", again=False), Snoozed(SECOND), Released("n"))


class Yard:
    """Two sources over one queue, a crew of two, and what it holds."""

    def __init__(self, store: Store, clock: FakeClock, seed: int) -> None:
        self.store = store
        self.clock = clock
        self.chance = random.Random(seed)
        self.declare()
        self.crew = Crew(store, 2, "tag")
        self.held: list[Assignment] = []

    def step(self) -> None:
        steps = (self.exchange, self.exchange, self.exchange, self.fill, self.fill, self.pass_time, self.look)
        rare = (self.mark_dead, self.declare, self.forget, self.settle_by_hand, self.wait_for_one)
        try:
            self.chance.choice(rare if self.chance.random() < 0.15 else steps)()
        except RotaError:  # both refused it in the same words
            pass

    def declare(self) -> None:
        self.store.sources.declare(
            [Declared(name, "tag", "tag", 30 * SECOND, 2, 5, self.chance.choice([0, 1, 3])) for name in NAMES]
        )

    def exchange(self) -> None:
        self.chance.shuffle(self.held)
        count = self.chance.randrange(len(self.held) + 1)
        settled, self.held = self.held[:count], self.held[count:]
        outcomes = [(claim.job_id, claim.token, self.chance.choice(OUTCOMES)) for claim in settled]
        self.held += self.crew.exchange(outcomes, room=self.chance.randrange(3)).claims

    def fill(self) -> None:
        """As a worker does whose job is the filler, or was: late ones are refused."""
        fillers = [claim for claim in self.held if claim.kind.startswith("rota:")]
        if not fillers:
            return
        claim = self.chance.choice(fillers)
        name = claim.kind.rpartition(":")[2]
        found = [Found(key, None) for key in self.chance.sample(KEYS, self.chance.randrange(9))]
        self.store.sources.sift(name, found, self.clock.now() - SECOND)
        self.store.sources.fill(name, (claim.job_id, claim.token), found, LIKE, self.chance.random() < 0.5)

    def pass_time(self) -> None:
        self.clock.advance(self.chance.choice([SECOND, 5 * SECOND, 31 * SECOND]))
        self.crew.renew()
        self.store.tick()

    def look(self) -> None:
        self.store.sources.list()
        self.store.queues.list()
        self.store.jobs.list(internal=True)

    def mark_dead(self) -> None:
        place = self.chance.randrange(2)
        self.store.orchestrators.mark_dead(self.crew.workers[place], Dead("signaled", "signal 9"))
        self.crew.workers[place] = self.store.orchestrators.register_worker(self.crew.id, f"worker:tag:{place}", "tag")

    def forget(self) -> None:
        self.store.sources.forget(self.chance.choice(NAMES))

    def settle_by_hand(self) -> None:
        jobs = self.store.jobs.list()
        if jobs:
            id, how = self.chance.choice(jobs).id, self.chance.choice(["done", "cancel", "retry"])
            if how == "done":
                self.store.jobs.done(id, force=True)
            else:
                (self.store.jobs.cancel if how == "cancel" else self.store.jobs.retry)(id)

    def wait_for_one(self) -> None:
        """A job that others wait for is kept when it is done."""
        jobs = [job for job in self.store.jobs.list() if not is_internal(job.queue)]
        if jobs:
            self.store.jobs.add(NewJob("after", "tag", after=[self.chance.choice(jobs).id]))


@pytest.fixture(params=range(8))
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    clock = FakeClock()
    file, server = make_store("sqlite", tmp_path, clock), make_store("postgres", tmp_path, clock)
    do_not_wait_for_the_disk(file)
    yield Yard(in_step(file, server), clock, request.param)
    compare_logs(file, server)
    for store in (file, server):
        counts = {(queue, state): n for queue, state, n in store.database.execute("tally.all", {}) if n}
        assert counts == {(queue, state): n for queue, state, n in store.database.execute("tally.true", {})}
    drop(server)
    file.close()
    server.close()


def test_both_databases_answer_the_same_whatever_becomes_of_a_sources_jobs(yard: Yard) -> None:
    for _ in range(STEPS):
        yard.step()
        yard.clock.advance(MINUTE // 1000)
    told = [fact for event in yard.store.events.after("0", 10_000) for fact in event.facts]
    assert {SourceChanged, JobMoved, WorkerChanged} <= set(map(type, told))
    assert any(isinstance(fact, SourceChanged) and fact.verb == "fill" and fact.details["added"] for fact in told)
