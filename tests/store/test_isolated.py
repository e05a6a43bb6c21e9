"""Several jobs in one hand: a death among them charges nobody, and each then runs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done, Failed, Released, Snoozed
from rota.core.death import DEADLINE, SIGNALED
from rota.core.job import DONE, FAILED, READY
from rota.core.orchestrator import LEASE
from rota.core.slot import RestartPolicy
from rota.core.times import MINUTE
from rota.core.worker import Dead
from rota.store.claims.exchange import Idle, Report
from rota.store.workers.crews import Process
from rota.store.workers.death import Death
from tests.support.work import Crew, add, add_many, status

if TYPE_CHECKING:
    from rota.core.claim import Outcome
    from rota.core.frames.assignment import Assignment
    from rota.store.claims.exchange import Exchange, Settled
    from rota.store.store import Store
    from tests.support.clock import FakeClock


class Crowd:
    """An orchestrator whose workers have so many jobs in hand at a time."""

    def __init__(self, store: Store, workers: int = 1, concurrency: int = 5, first: int = 0) -> None:
        self.store = store
        self.crew = Crew(store)
        self.concurrency = concurrency
        self.workers = [self.register_worker(n) for n in range(first, first + workers)]
        self.held: dict[str, list[Assignment]] = {worker: [] for worker in self.workers}

    def register_worker(self, n: int) -> str:
        worker = f"worker-0000000{n}"
        self.store.orchestrators.register_worker(
            self.crew.id, f"worker:default:{n}", "default", Process(worker, 1, 1, None)
        )
        self.store.orchestrators.came_up(worker, f"worker:default:{n}", self.concurrency)
        return worker

    def exchange(self, *outcomes: Settled) -> Exchange:
        """Settle these, and hand out all that there is room for."""
        settled = {token for _, token, _ in outcomes}
        for worker in self.held:
            self.held[worker] = [each for each in self.held[worker] if each.token not in settled]
        idle = [Idle(worker, "default", self.room(worker), len(held), crowd=True) for worker, held in self.held.items()]
        answer = self.store.orchestrators.exchange(self.crew.id, self.crew.number, Report(outcomes, idle))
        self.crew.number = answer.number
        for claim in answer.claims:
            self.held[claim.worker_id].append(claim)
        return answer

    def room(self, worker: str) -> int:
        held = self.held[worker]
        return 0 if any(each.isolated for each in held) else self.concurrency - len(held)

    def die(self, worker: str, reason: str = SIGNALED, overdue: tuple[int, ...] = ()) -> None:
        death = Death(worker, "worker:default:0", reason, "ended by signal 9", signal=9, overdue=overdue)
        self.store.orchestrators.record_death(death, Report(), RestartPolicy())
        del self.held[worker]

    def replace(self, worker: str) -> str:
        self.die(worker)
        fresh = self.register_worker(len(self.workers) + 1)
        self.workers.append(fresh)
        self.held[fresh] = []
        return fresh

    def jobs(self, worker: str) -> list[int]:
        return [each.job_id for each in self.held[worker]]


def test_a_death_with_several_in_hand_charges_none_and_leaves_a_run(store: Store) -> None:
    ids = add_many(store, 3, max_attempts=1)
    crowd = Crowd(store)
    crowd.exchange()
    crowd.die(crowd.workers[0])
    for id in ids:
        job = store.jobs.get(id)
        assert (job.status, job.attempts, job.deaths, job.isolated) == (READY, 0, 0, 1)
        (run,) = store.claims.runs(id)
        assert (run.status, run.reason) == ("expired", "death")


def test_a_death_with_one_in_hand_is_charged_to_it(store: Store) -> None:
    id = add(store)
    crowd = Crowd(store)
    crowd.exchange()
    crowd.die(crowd.workers[0])
    job = store.jobs.get(id)
    assert (job.attempts, job.deaths, job.isolated) == (1, 1, 0)


def test_they_run_next_one_by_one_with_nothing_beside_them(store: Store) -> None:
    ids = add_many(store, 3)
    crowd, ran = Crowd(store), []
    crowd.exchange()
    late = add_many(store, 4)
    worker = crowd.replace(crowd.workers[0])
    crowd.exchange()
    for _ in ids:
        (claim,) = crowd.held[worker]
        assert claim.isolated
        assert crowd.exchange().claims == []
        ran.append(claim.job_id)
        crowd.exchange((claim.job_id, claim.token, Done()))
    assert ran == ids
    assert crowd.jobs(worker) == late, "then all the others at once"


def test_one_that_must_be_alone_waits_for_empty_hands_and_those_behind_it_wait_too(store: Store) -> None:
    first, busy, second = add_many(store, 3)
    crowd = Crowd(store, workers=2)
    one, two = crowd.workers
    crowd.exchange()
    assert (crowd.jobs(one), crowd.jobs(two)) == ([first, second], [busy])
    late = add_many(store, 2)
    three = crowd.replace(one)
    assert [claim.job_id for claim in crowd.exchange().claims] == [first]
    assert (crowd.jobs(three), crowd.jobs(two)) == ([first], [busy])
    crowd.exchange((busy, crowd.held[two][0].token, Done()))
    assert (crowd.jobs(three), crowd.jobs(two)) == ([first], [second])
    crowd.exchange((first, crowd.held[three][0].token, Done()))
    assert crowd.jobs(three) == late


def test_a_worker_that_runs_one_after_another_may_have_it_in_its_window(store: Store) -> None:
    ids = add_many(store, 2)
    crowd = Crowd(store)
    crowd.exchange()
    crowd.die(crowd.workers[0])
    claims = Crew(store).exchange(room=5).claims
    assert [(claim.job_id, claim.isolated) for claim in claims] == [(id, True) for id in ids]


@pytest.mark.parametrize(
    ("outcome", "isolated"),
    [
        (Done(), 0),
        (Failed("no"), 0),
        (Failed("no", again=False), 0),
        (Snoozed(MINUTE), 0),
        (Released(), 1),
    ],
)
def test_the_mark_is_gone_once_a_run_has_shown_something(store: Store, outcome: Outcome, isolated: int) -> None:
    ids = add_many(store, 2)
    crowd = Crowd(store)
    crowd.exchange()
    crowd.replace(crowd.workers[0])
    (claim,) = crowd.exchange().claims
    store.claims.settle(store.claims.held(claim.job_id, token=claim.token), outcome)
    assert store.jobs.get(ids[0]).isolated == isolated


def test_a_retry_begins_without_the_mark(store: Store) -> None:
    ids = add_many(store, 2)
    crowd = Crowd(store)
    crowd.exchange()
    crowd.die(crowd.workers[0])
    store.jobs.cancel(ids[0])
    store.jobs.retry(ids[0])
    assert store.jobs.get(ids[0]).isolated == 0


def test_where_the_guilty_one_is_known_only_it_pays(store: Store) -> None:
    ids = add_many(store, 3, timeout=MINUTE)
    crowd = Crowd(store)
    crowd.exchange()
    late = crowd.held[crowd.workers[0]][1]
    crowd.die(crowd.workers[0], DEADLINE, overdue=(late.token,))
    found = [store.jobs.get(id) for id in ids]
    assert [(job.attempts, job.deaths, job.isolated) for job in found] == [(0, 0, 0), (1, 0, 0), (0, 0, 0)]
    (run,) = store.claims.runs(late.job_id)
    assert run.reason == "timeout"
    assert store.claims.runs(ids[0]) == []


def test_a_poison_job_among_many_is_quarantined_and_the_others_finish(store: Store) -> None:
    ids = add_many(store, 5)
    poison, crowd = ids[2], Crowd(store)
    deaths, worker = 0, crowd.workers[0]
    crowd.exchange()
    while any(status(store, id) not in (DONE, FAILED) for id in ids):
        if poison in crowd.jobs(worker):
            deaths, worker = deaths + 1, crowd.replace(worker)
            crowd.exchange()
        else:
            crowd.exchange(*[(each.job_id, each.token, Done()) for each in crowd.held[worker]])
    assert deaths == 4, "one with all in hand, and three alone"
    assert [status(store, id) for id in ids] == [DONE, DONE, FAILED, DONE, DONE]
    assert "quarantined" in (store.jobs.get(poison).error or "")
    assert all(store.jobs.get(id).attempts == 1 for id in ids if id != poison)


def test_an_orphan_whose_leases_run_out_spends_none_of_several_and_then_the_one_alone(
    store: Store, clock: FakeClock
) -> None:
    ids = add_many(store, 2)
    crowd = Crowd(store)
    tokens = {claim.token for claim in crowd.exchange().claims}
    assert store.orphans.begin(crowd.workers[0], tokens, []) == tokens
    clock.advance(2 * LEASE)
    store.reconcile()
    found = [store.jobs.get(id) for id in ids]
    assert [(job.status, job.attempts, job.lapses, job.isolated) for job in found] == [(READY, 0, 1, 1)] * 2

    again = Crowd(store, first=5)
    (claim,) = again.exchange().claims
    assert store.orphans.begin(again.workers[0], {claim.token}, []) == {claim.token}
    clock.advance(2 * LEASE)
    store.reconcile()
    job = store.jobs.get(claim.job_id)
    assert (job.status, job.attempts, job.lapses, job.isolated) == (READY, 1, 2, 0)


def test_a_lost_orchestrator_charges_none_of_a_crowd_either(store: Store) -> None:
    ids = add_many(store, 3)
    crowd = Crowd(store)
    crowd.exchange()
    store.orchestrators.mark_dead(crowd.workers[0], Dead("lost", "gone"))
    assert [(store.jobs.get(id).deaths, store.jobs.get(id).isolated) for id in ids] == [(0, 1)] * 3
