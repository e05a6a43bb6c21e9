"""Jobs that wait for others: let go in the transaction that settles the last of them, never before."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done
from rota.core.errors import Conflict, Cycle, NotFound, Refused
from rota.core.event import JobMoved
from rota.core.job import BLOCKED, CANCELLED, READY, SCHEDULED
from rota.core.times import HOUR
from rota.store.jobs.dependencies import CHUNK
from tests.support.stores import rows
from tests.support.work import Crew, add, add_many, claim, fail, finish, last_event, status, told

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def test_a_job_waits_until_the_last_of_its_dependencies_is_done(store: Store) -> None:
    first, second = add(store), add(store)
    job = add(store, after=[first, second])
    assert store.jobs.get(job).after == (first, second)
    with pytest.raises(Refused, match="is blocked"):
        claim(store, job)
    finish(store, first)
    assert status(store, job) == BLOCKED
    finish(store, second)
    assert status(store, job) == READY


def test_it_is_let_go_in_the_transaction_that_settles(store: Store) -> None:
    needed = add(store)
    job = add(store, after=[needed])
    held = claim(store, needed)
    before = last_event(store)
    store.claims.settle(held, Done())
    (event,) = store.events.after(before)
    assert [move.verb for move in event.of(JobMoved)] == ["finish", "unblock"] and event.of(JobMoved)[1].ids == [job]


def test_a_job_after_one_that_is_done_is_ready_at_once(store: Store) -> None:
    needed = add(store)
    finish(store, needed)
    assert status(store, add(store, after=[needed])) == READY


def test_let_go_before_its_time_it_is_scheduled(store: Store, clock: FakeClock) -> None:
    needed = add(store)
    job = add(store, after=[needed], at=clock.wall() + HOUR)
    assert status(store, job) == BLOCKED
    finish(store, needed)
    assert status(store, job) == SCHEDULED
    clock.advance(HOUR)
    assert [each.id for each in store.jobs.ready()] == [job]


@pytest.mark.parametrize("ending", ["failed", "cancelled"])
def test_a_dependency_that_did_not_get_done_blocks_and_why_names_it(store: Store, ending: str) -> None:
    needed = add(store, max_attempts=1)
    job = add(store, after=[needed])
    if ending == "failed":
        fail(store, needed)
    else:
        store.jobs.cancel(needed)
    assert status(store, job) == BLOCKED
    verb = "has failed" if ending == "failed" else "was cancelled"
    assert (
        f"Job {job} waits for job {needed}, which {verb}: `rota retry` that, or `rota unblock` this."
        == store.jobs.why(job)
    )
    store.jobs.retry(needed)
    finish(store, needed)
    assert status(store, job) == READY, "a retry that gets done lets it go after all"


def test_a_thousand_dependents_are_let_go_at_once(store: Store) -> None:
    needed = add(store)
    dependents = add_many(store, CHUNK - 1, after=[needed])
    finish(store, needed)
    assert store.queues.list()[0].counts[READY] == len(dependents)


@pytest.mark.parametrize("count", [CHUNK, 2500])
def test_more_are_let_go_in_chunks_by_the_next_tendings(store: Store, count: int) -> None:
    needed = add(store)
    add_many(store, count, after=[needed])
    finish(store, needed)
    ready = [store.queues.list()[0].counts[READY]]
    while rows(store, "SELECT 1 FROM ripple"):
        store.tick()
        ready.append(store.queues.list()[0].counts[READY])
    assert ready[0] == CHUNK and ready[-1] == count
    assert all(0 <= now - before <= CHUNK for before, now in itertools.pairwise(ready))
    assert len(ready) <= count // CHUNK + 2


def test_an_exchange_lets_dependents_go_too(store: Store) -> None:
    needed = add(store)
    job = add(store, after=[needed])
    crew = Crew(store)
    (handout,) = crew.exchange().claims
    answer = crew.exchange([(needed, handout.token, Done())])
    assert [each.job_id for each in answer.claims] == [job]


def test_block_makes_a_waiting_job_wait_and_unblock_lets_it_go(store: Store) -> None:
    job, needed = add(store), add(store)
    assert store.jobs.block(job, needed).status == BLOCKED
    assert store.jobs.block(job, needed).after == (needed,), "a second time changes nothing"
    assert store.jobs.unblock(job, needed).status == READY
    with pytest.raises(NotFound, match=f"job {job} does not wait for job {needed}"):
        store.jobs.unblock(job, needed)


def test_unblock_leaves_a_job_blocked_that_waits_for_another(store: Store) -> None:
    first, second = add(store), add(store)
    job = add(store, after=[first, second])
    assert store.jobs.unblock(job, first).status == BLOCKED
    assert store.jobs.unblock(job, second).status == READY


def test_a_job_may_be_made_to_wait_for_one_that_is_done(store: Store, clock: FakeClock) -> None:
    needed = add(store)
    finish(store, needed)
    ready, due = add(store), add(store, at=clock.wall() + HOUR)
    assert store.jobs.block(ready, needed).status == READY
    clock.advance(HOUR)
    store.jobs.block(due, needed)
    assert {each.id for each in store.jobs.ready()} == {ready, due}


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_cycle_is_refused_and_changes_nothing(store: Store, length: int) -> None:
    chain = [add(store)]
    for _ in range(length - 1):
        chain.append(add(store, after=[chain[-1]]))
    before = told(store), rows(store, "SELECT * FROM dependency")
    with pytest.raises(Cycle, match=f"job {chain[0]} cannot wait for job {chain[-1]}"):
        store.jobs.block(chain[0], chain[-1])
    assert (told(store), rows(store, "SELECT * FROM dependency")) == before


def test_only_a_waiting_job_can_be_blocked_and_only_on_one_that_is_there(store: Store) -> None:
    job, needed = add(store), add(store)
    with pytest.raises(NotFound, match="there is no job 99"):
        store.jobs.block(job, 99)
    claim(store, job)
    with pytest.raises(Conflict, match=f"job {job} is active"):
        store.jobs.block(job, needed)


def test_a_released_job_is_recomputed_and_never_blindly_ready(store: Store) -> None:
    needed = add(store)
    finish(store, needed)
    job = add(store, after=[needed])
    held = claim(store, job)
    store.jobs.retry(needed)
    store.claims.release(held)
    assert status(store, job) == BLOCKED
    finish(store, needed)
    assert status(store, job) == READY


def test_a_retried_job_waits_for_its_dependencies_again(store: Store) -> None:
    needed = add(store)
    job = add(store, after=[needed])
    assert store.jobs.cancel(job).status == CANCELLED
    assert store.jobs.retry(job).status == BLOCKED
    finish(store, needed)
    assert status(store, job) == READY


def test_a_cancelled_dependent_is_not_let_go(store: Store) -> None:
    needed = add(store)
    job = add(store, after=[needed])
    store.jobs.cancel(job)
    finish(store, needed)
    assert status(store, job) == CANCELLED


def test_a_job_done_by_force_lets_its_dependents_go(store: Store) -> None:
    needed = add(store)
    job = add(store, after=[needed])
    store.jobs.done(needed, force=True)
    assert status(store, job) == READY


@pytest.mark.parametrize("held_back_by", ["limit", "time"])
def test_a_job_held_back_waits_again_for_one_that_is_tried_again_meanwhile(
    store: Store, clock: FakeClock, held_back_by: str
) -> None:
    needed, first = add(store), add(store, queue="one", limit_key="k")
    store.queues.set("one", per_key=1)
    at = clock.wall() + HOUR if held_back_by == "time" else None
    job = add(store, queue="one", limit_key="k", after=[needed], at=at)
    finish(store, needed)
    store.jobs.retry(needed)
    finish(store, first)
    clock.advance(HOUR)
    store.tick()
    assert status(store, job) == BLOCKED
    assert f"Job {job} waits for job {needed}" in store.jobs.why(job)
    finish(store, needed)
    assert status(store, job) == READY
