"""What settling keeps: result, error, note and runs; repeated it changes nothing, and a retry starts anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done, Failed, Released, Snoozed
from rota.core.errors import Conflict, Stale
from rota.core.job import ACTIVE, DONE, READY
from rota.core.times import HOUR, MINUTE, SECOND
from tests.support.stores import everything
from tests.support.work import add, claim, fail, finish, register, status

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def test_done_keeps_the_result_and_counts_for_the_worker(store: Store, clock: FakeClock) -> None:
    job, worker = add(store), register(store)
    store.claims.settle(claim(store, job, worker), Done('{"tags":["a"]}'))
    found = store.jobs.get(job)
    assert (found.status, found.result, found.finished_at, found.attempts) == (DONE, {"tags": ["a"]}, clock.now(), 1)
    assert (store.workers.get(worker).success_count, store.workers.get(worker).status) == (1, "idle")


def test_failed_keeps_the_error_and_counts_for_the_worker(store: Store, clock: FakeClock) -> None:
    job, worker = add(store), register(store)
    store.claims.settle(claim(store, job, worker), Failed("x" * 20_000))
    found, after = store.jobs.get(job), store.workers.get(worker)
    assert found.error == "x" * 16_384, "a long error is cut"
    assert (after.error_count, after.last_error_at, after.last_error_message) == (1, clock.now(), found.error)


def test_a_released_job_carries_a_note_to_its_next_holder_and_spends_nothing(store: Store) -> None:
    job = add(store, max_attempts=1)
    store.claims.release(claim(store, job), "half of it is done")
    found = store.jobs.get(job)
    assert (found.status, found.note, found.attempts) == (READY, "half of it is done", 0)
    claim(store, job)
    assert store.jobs.get(job).note == "half of it is done"


@pytest.mark.parametrize("outcome", [Done("1"), Failed("x"), Released("n"), Snoozed(SECOND)], ids=repr)
def test_settling_again_with_the_same_token_changes_nothing(store: Store, outcome: Done | Failed) -> None:
    held = claim(store, add(store))
    assert store.claims.settle(held, outcome)
    before = everything(store)
    assert not store.claims.settle(held, outcome)
    assert everything(store) == before


def test_settling_again_differently_is_refused(store: Store) -> None:
    held = claim(store, add(store))
    store.claims.settle(held, Done())
    with pytest.raises(Stale, match="it is done"):
        store.claims.settle(held, Failed("x"))


def test_a_repeated_settle_is_no_error_even_when_the_job_runs_again(store: Store) -> None:
    job = add(store)
    held = claim(store, job)
    store.claims.settle(held, Done())
    store.jobs.retry(job)
    claim(store, job)
    store.claims.settle(held, Done())
    assert status(store, job) == ACTIVE


def test_cancelling_takes_the_job_from_its_holder(store: Store) -> None:
    job, worker = add(store), register(store)
    held = claim(store, job, worker)
    cancelled = store.jobs.cancel(job)
    assert (cancelled.status, cancelled.error) == ("cancelled", "cancelled by tester@here")
    assert store.workers.get(worker).status == "idle"
    with pytest.raises(Stale, match="it is cancelled"):
        store.claims.settle(held, Done())
    with pytest.raises(Conflict, match="is cancelled already"):
        store.jobs.cancel(job)


def test_history_is_kept_as_runs(store: Store, clock: FakeClock) -> None:
    job, worker = add(store, max_attempts=9), register(store, every=HOUR)
    store.claims.release(claim(store, job, worker), "later")
    started = clock.now()
    held = store.claims.renew(claim(store, job, worker))
    clock.advance(SECOND)
    store.claims.settle(held, Failed("x"))
    clock.advance(MINUTE)
    claim(store, job, worker, MINUTE)
    clock.advance(MINUTE)
    store.tick()
    finish(store, job)
    runs = store.claims.runs(job)
    assert [run.status for run in runs] == ["released", "failed", "expired", "completed"]
    assert [run.attempt for run in runs] == [0, 1, 2, 3]
    assert (runs[1].claimed_at, runs[1].ended_at, runs[1].renewed_count) == (started, started + SECOND, 1)
    assert (runs[0].note, runs[1].error) == ("later", "x")


def test_retry_starts_a_new_generation_with_all_its_attempts(store: Store) -> None:
    job = add(store, max_attempts=1)
    fail(store, job)
    retried = store.jobs.retry(job)
    assert (retried.status, retried.generation, retried.attempts, retried.error) == (READY, 2, 0, None)
    with pytest.raises(Conflict, match="only a job that is done, failed or cancelled"):
        store.jobs.retry(job)
