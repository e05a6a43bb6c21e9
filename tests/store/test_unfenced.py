"""Settling without a token: only where nobody can be mistaken for the holder, unless by force; and told as such."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done
from rota.core.errors import Conflict, Stale
from rota.core.event import JobChanged
from rota.core.times import MINUTE
from rota.core.worker import Dead
from tests.support.work import Crew, add, claim, fail, last_event, register, status

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def unfenced(store: Store, after: str) -> list[object]:
    return [fact for event in store.events.after(after) for fact in event.of(JobChanged, "unfenced")]


def test_done_without_a_token_means_the_current_holders_claim_and_is_told_as_unfenced(store: Store) -> None:
    job, worker = add(store), register(store)
    held = claim(store, job, worker)
    before = last_event(store)
    done = store.jobs.done(job, {"n": 1})
    assert (done.status, done.result, done.worker_id) == ("done", {"n": 1}, worker)
    assert unfenced(store, before) == [JobChanged("unfenced", str(job), {"token": held.token, "forced": False})]
    assert store.claims.is_settled_by(job, worker)


def test_fail_without_a_token_spends_an_attempt_of_that_claim(store: Store) -> None:
    job = add(store, max_attempts=2)
    claim(store, job)
    assert store.jobs.fail(job, "no").attempts == 1
    other = add(store)
    claim(store, other)
    assert store.jobs.fail(other, "no", again=False).status == "failed"


def test_the_holders_own_repeat_of_done_is_no_error_after_that(store: Store) -> None:
    job = add(store)
    held = claim(store, job)
    store.jobs.done(job)
    store.claims.settle(held, Done())


def test_it_is_refused_once_an_earlier_claim_of_that_generation_lapsed(store: Store, clock: FakeClock) -> None:
    job = add(store)
    claim(store, job, None, MINUTE)
    clock.advance(MINUTE)
    claim(store, job, register(store))
    with pytest.raises(Stale, match="an earlier claim on job 1 lapsed"):
        store.jobs.done(job)
    assert status(store, job) == "active"
    assert store.jobs.done(job, force=True).status == "done"


def test_a_new_generation_forgets_earlier_lapses(store: Store, clock: FakeClock) -> None:
    job = add(store, max_attempts=1)
    claim(store, job, None, MINUTE)
    clock.advance(MINUTE)
    store.tick()
    store.jobs.retry(job)
    claim(store, job)
    assert store.jobs.done(job).status == "done"


def test_a_failure_in_the_past_does_not_count_as_a_lapse(store: Store, clock: FakeClock) -> None:
    job = add(store)
    fail(store, job)
    clock.advance(MINUTE)
    store.tick()
    claim(store, job)
    assert store.jobs.done(job).status == "done"


def test_a_watched_workers_job_is_refused_unless_by_force_which_is_told(store: Store) -> None:
    job, crew = add(store), Crew(store)
    (handout,) = crew.exchange().claims
    with pytest.raises(Stale, match=f"job {job} is held by {crew.workers[0]}, which is watched"):
        store.jobs.done(job)
    before = last_event(store)
    assert store.jobs.done(job, force=True).status == "done"
    assert unfenced(store, before) == [JobChanged("unfenced", str(job), {"token": handout.token, "forced": True})]
    assert crew.exchange([(job, handout.token, Done())], room=0).refused in ([], [handout.token])
    store.orchestrators.mark_dead(crew.workers[0], Dead("signaled", "signal 9"))
    assert status(store, job) == "done"


@pytest.mark.parametrize("verb", ["done", "failed"])
def test_a_job_that_nobody_holds_is_settled_by_force_alone(store: Store, verb: str) -> None:
    job = add(store)

    def settle(force: bool) -> object:
        return store.jobs.done(job, force=force) if verb == "done" else store.jobs.fail(job, "no", force=force)

    with pytest.raises(Conflict, match=f"job {job} is ready and nobody holds it"):
        settle(False)
    settle(True)
    assert status(store, job) == verb
    with pytest.raises(Conflict, match=f"job {job} is {verb} already"):
        settle(True)
