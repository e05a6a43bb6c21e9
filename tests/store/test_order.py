"""Which job comes first: by priority, then by age, and only when its time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Snoozed
from rota.core.errors import NothingReady, Refused
from rota.core.job import ACTIVE, READY, SCHEDULED
from rota.core.times import HOUR, MINUTE, SECOND
from tests.support.work import Crew, add, add_many, claim, fail, register, status

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def test_higher_priorities_come_first_and_within_one_the_oldest(store: Store) -> None:
    low, high, also_high, lowest = (add(store, priority=p) for p in (0, 9, 9, -9))
    assert [job.id for job in store.jobs.ready()] == [high, also_high, low, lowest]
    assert [job.id for job in store.jobs.ready(limit=2)] == [high, also_high]
    assert [store.claims.take().job_id for _ in range(4)] == [high, also_high, low, lowest]


def test_an_orchestrator_gets_them_in_the_same_order(store: Store) -> None:
    low, high, also_high = (add(store, priority=p) for p in (0, 9, 9))
    assert [handout.job_id for handout in Crew(store, 1).exchange(room=9).claims] == [high, also_high, low]


def test_across_queues_the_best_job_of_all_is_taken(store: Store) -> None:
    add(store, queue="a")
    best = add(store, queue="b", priority=1)
    assert store.claims.take().job_id == best
    with pytest.raises(NothingReady, match="nothing is ready in queue b"):
        store.claims.take(queue="b")
    with pytest.raises(NothingReady):
        store.claims.take(queue="never-heard-of")


def test_ready_lists_no_more_than_asked_for_and_by_queue(store: Store) -> None:
    ids, other = add_many(store, 3), add(store, queue="other")
    assert [job.id for job in store.jobs.ready(limit=2)] == ids[:2]
    assert [job.id for job in store.jobs.ready("other")] == [other]


def test_a_job_waits_for_its_time_on_the_wall_clock(store: Store, clock: FakeClock) -> None:
    job = add(store, at=clock.wall() + HOUR)
    assert status(store, job) == SCHEDULED and store.jobs.ready() == []
    with pytest.raises(Refused, match="is scheduled"):
        claim(store, job)
    clock.jump_wall(HOUR - 1)
    assert store.jobs.ready() == []
    clock.jump_wall(1)
    assert [each.id for each in store.jobs.ready()] == [job]


def test_a_time_in_the_past_is_now(store: Store, clock: FakeClock) -> None:
    assert status(store, add(store, at=clock.wall() - HOUR)) == READY


def test_a_due_job_takes_the_place_of_its_age(store: Store, clock: FakeClock) -> None:
    early, late = add(store, at=clock.wall() + MINUTE), add(store)
    clock.advance(MINUTE)
    assert [store.claims.take().job_id, store.claims.take().job_id] == [early, late]


def test_a_retry_and_a_snooze_wait_on_the_stores_clock(store: Store, clock: FakeClock) -> None:
    job = add(store)
    store.claims.settle(claim(store, job), Snoozed(MINUTE, "not yet"))
    scheduled = add(store, at=clock.wall() + HOUR)
    clock.jump_wall(10 * HOUR)
    assert [each.id for each in store.jobs.ready()] == [scheduled] and status(store, job) == SCHEDULED
    clock.advance(MINUTE - 1)
    assert [each.id for each in store.jobs.ready()] == [scheduled]
    clock.advance(1)
    assert [each.id for each in store.jobs.ready()] == [job, scheduled]
    assert (store.jobs.get(job).note, store.jobs.get(job).attempts) == ("not yet", 0)


def test_a_snooze_of_nothing_is_ready_at_once(store: Store) -> None:
    job = add(store)
    store.claims.settle(claim(store, job), Snoozed(0))
    assert status(store, job) == READY


def test_a_failed_job_waits_at_most_its_backoff_with_jitter(store: Store, clock: FakeClock) -> None:
    waits = []
    for _ in range(40):
        job = add(store)
        fail(store, job)
        waits.append((store.jobs.get(job).due_at or clock.now()) - clock.now())
    assert all(0 <= wait <= 2 * SECOND for wait in waits)
    assert len(set(waits)) > 30 and min(waits) < SECOND / 2 and max(waits) > 3 * SECOND / 2, "the jitter is full"


def test_attempts_are_spent_one_by_one_until_the_job_has_failed(store: Store, clock: FakeClock) -> None:
    job = add(store, max_attempts=3)
    for attempt in (1, 2):
        fail(store, job, f"broken {attempt}")
        assert (store.jobs.get(job).attempts, store.jobs.get(job).error) == (attempt, f"broken {attempt}")
        clock.advance(10 * MINUTE)
        store.tick()
    fail(store, job, "broken 3")
    over = store.jobs.get(job)
    assert (over.status, over.attempts, over.error, over.finished_at) == ("failed", 3, "broken 3", clock.now())
    assert [run.attempt for run in store.claims.runs(job)] == [1, 2, 3]


def test_the_wait_is_longer_after_each_failure(store: Store, clock: FakeClock) -> None:
    longest = []
    for attempt in (1, 2, 3):
        waits = []
        for _ in range(20):
            job = add(store, max_attempts=9)
            for _ in range(attempt):
                clock.advance(10 * MINUTE)
                fail(store, job)
            waits.append((store.jobs.get(job).due_at or clock.now()) - clock.now())
        longest.append(max(waits))
    assert longest[0] <= 2 * SECOND < longest[1] <= 4 * SECOND < longest[2] <= 8 * SECOND


def test_promotion_is_bounded_and_the_next_look_goes_on(store: Store, clock: FakeClock) -> None:
    add_many(store, 600, at=clock.wall() + MINUTE)
    clock.advance(MINUTE)
    counts = []
    for _ in range(3):
        store.tick()
        counts.append(store.queues.list()[0].counts[READY])
    assert counts == [256, 512, 600]


def test_a_claim_may_name_a_due_job_that_nobody_promoted_yet(store: Store, clock: FakeClock) -> None:
    job = add(store, at=clock.wall() + MINUTE)
    clock.advance(MINUTE)
    claim(store, job, register(store))
    assert status(store, job) == ACTIVE
