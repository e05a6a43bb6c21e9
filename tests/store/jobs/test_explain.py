"""Why a job is not running: the exact reason, in one sentence."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done
from rota.core.errors import Conflict, NotFound, WaitedTooLong
from rota.core.times import HOUR, MINUTE, SECOND
from tests.support.stores import STORES, again, make_store
from tests.support.work import Crew, add, add_many, claim, fail, finish, register

if TYPE_CHECKING:
    from pathlib import Path

    from rota.core.job import Job
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def test_done_by_whom_and_when(store: Store) -> None:
    job, worker = add(store), register(store)
    store.claims.settle(claim(store, job, worker), Done())
    assert store.jobs.why(job) == f"Job {job} is done: {worker} finished it at 2027-01-15T08:00:00Z."


def test_failed_after_how_many_attempts_and_of_what(store: Store) -> None:
    job = add(store, max_attempts=1)
    fail(store, job, "no such file")
    assert "failed after 1 of 1 attempts: no such file; `rota retry 1` runs it again" in store.jobs.why(job)


def test_cancelled_by_whom(store: Store) -> None:
    job = add(store)
    store.jobs.cancel(job)
    assert store.jobs.why(job) == "Job 1 will not run: it was cancelled by tester@here."


def test_running_where_and_until_when(store: Store) -> None:
    job, worker = add(store), register(store)
    claim(store, job, worker, MINUTE)
    assert (
        f"Job {job} is running: {worker} holds it since 2027-01-15T08:00:00Z until 2027-01-15T08:01"
        in store.jobs.why(job)
    )
    watched, crew = add(store), Crew(store)
    crew.exchange()
    assert store.jobs.why(watched).endswith(f"{crew.workers[0]} holds it since 2027-01-15T08:00:00Z.")


def test_a_run_far_beyond_the_usual_time_of_its_kind_needs_attention(store: Store, clock: FakeClock) -> None:
    first, hanging, new = add(store, kind="tag"), add(store, kind="tag"), add(store, kind="scan")
    taken = claim(store, first)
    clock.advance(20 * SECOND)
    store.claims.settle(taken, Done())
    for job in (hanging, new):
        claim(store, job, lease=2 * HOUR)
    clock.advance(200 * SECOND)
    assert "attention" not in store.jobs.why(hanging)
    clock.advance(SECOND)
    told = "; it needs attention: that is 3m21s, and others of kind tag took 20s at most"
    assert store.jobs.why(hanging).endswith(f"{told}: `rota cancel {hanging}` ends it.")
    assert "attention" not in store.jobs.why(new), "nobody knows how long its kind takes"
    clock.advance(HOUR)
    assert "it needs attention: that is 1h3m, and none of its kind ended" in store.jobs.why(new)


def test_a_run_without_a_kind_is_compared_with_others_without_one(store: Store, clock: FakeClock) -> None:
    first, hanging = add(store), add(store)
    taken = claim(store, first)
    clock.advance(20 * SECOND)
    store.claims.settle(taken, Done())
    claim(store, hanging, lease=2 * HOUR)
    clock.advance(201 * SECOND)
    assert "that is 3m21s, and others without a kind took 20s at most" in store.jobs.why(hanging)


def test_not_due_before_when(store: Store, clock: FakeClock) -> None:
    job = add(store, at=clock.wall() + HOUR)
    assert store.jobs.why(job) == "Job 1 waits for its time: it is due at 2027-01-15T09:00:00Z."
    failed = add(store)
    fail(store, failed, "no route")
    assert "after attempt 1 of 3 failed: no route" in store.jobs.why(failed)


def test_blocked_by_which_jobs(store: Store) -> None:
    needed = add_many(store, 7)
    job = add(store, after=needed)
    finish(store, needed[0])
    sentence = store.jobs.why(job)
    assert "waits for job 2 (ready) and job 3 (ready)" in sentence and sentence.endswith("and 1 more.")


def test_a_limit_reached_by_whom(store: Store) -> None:
    store.queues.set("default", concurrency=1)
    first, second = add_many(store, 2)
    worker = register(store)
    claim(store, first, worker)
    assert store.jobs.why(second) == (
        f"Job {second} is ready, but queue default lets 1 run at once, and they are taken by {worker} (job {first})."
    )


def test_a_rate_and_when_the_next_may_start(store: Store, clock: FakeClock) -> None:
    store.queues.set("default", rate="10/m")
    first, second = add_many(store, 2)
    claim(store, first)
    clock.advance(SECOND)
    assert store.jobs.why(second) == "Job 2 is ready, but queue default starts 10/m: the next in 5s."


def test_a_keys_limit_and_who_has_it(store: Store) -> None:
    store.queues.set("default", per_key=1)
    first, second = add_many(store, 2, limit_key="k")
    assert store.jobs.why(second).endswith("run at once, and they are taken by jobs that are ready.")
    held = claim(store, first)
    assert store.jobs.why(second).endswith(f"taken by {held.worker_id} (job {first}).")


def test_no_worker_or_the_next_one(store: Store) -> None:
    job = add(store)
    assert store.jobs.why(job) == "Job 1 is ready, but there is no worker: `rota claim 1` takes it by hand."
    register(store, queue="other")
    assert "there is no worker" in store.jobs.why(job)
    register(store)
    assert "the next worker to claim from queue default may take it (1 live)" in store.jobs.why(job)


def test_paused_all_comes_before_the_queues_own_pause(store: Store) -> None:
    job = add(store)
    store.queues.pause()
    store.queues.pause("default")
    assert "everything is paused by tester@here" in store.jobs.why(job)


def test_an_unknown_job_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.jobs.why(5)


@pytest.mark.parametrize("kind", STORES)
def test_waiting_ends_when_the_job_gets_there(kind: str, tmp_path: Path) -> None:
    with make_store(kind, tmp_path) as store:
        jobs, found = add_many(store, 2), list["Job"]()

        def wait() -> None:
            with again(store) as other:
                found.extend(other.jobs.wait(jobs, "done", 60 * SECOND))

        waiting = Thread(target=wait)
        waiting.start()
        for job in jobs:
            finish(store, job)
        waiting.join(30)
        assert [job.id for job in found] == jobs


def test_waiting_ends_when_the_job_can_no_longer_get_there_or_the_time_is_over(store: Store) -> None:
    job, other = add_many(store, 2)
    store.jobs.cancel(job)
    with pytest.raises(Conflict, match="job 1 is cancelled, so it will not be done: cancelled by tester@here"):
        store.jobs.wait([job], "done", SECOND)
    assert store.jobs.wait([job])[0].status == "cancelled"
    with pytest.raises(WaitedTooLong, match=r"still not done: job 2 \(ready\)"):
        store.jobs.wait([other], "done", SECOND // 50)
