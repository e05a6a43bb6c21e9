"""History is forgotten by age and by number; what others still wait for is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.errors import NotFound
from rota.core.times import DAY, HOUR, MINUTE, SECOND
from rota.store.maintenance.prune import Pruned, Stride
from tests.support.stores import rows
from tests.support.work import add, add_many, claim, fail, finish, register

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def ids(store: Store) -> list[int]:
    return [id for (id,) in rows(store, "SELECT id FROM job ORDER BY id")]


def test_final_jobs_are_kept_for_seven_days_and_failed_ones_for_thirty(store: Store, clock: FakeClock) -> None:
    done, failed, cancelled, waiting, held = add_many(store, 5, max_attempts=1)
    finish(store, done)
    fail(store, failed)
    store.jobs.cancel(cancelled)
    claim(store, held, lease=365 * DAY)
    clock.advance(7 * DAY)
    assert store.history.prune().jobs == 0
    clock.advance(1)
    assert store.history.prune().jobs == 2
    assert ids(store) == [failed, waiting, held]
    with pytest.raises(NotFound):
        store.jobs.get(done)
    clock.advance(23 * DAY)
    assert store.history.prune().jobs == 1
    assert ids(store) == [waiting, held]


def test_where_there_is_nothing_nothing_is_forgotten(store: Store) -> None:
    assert store.history.prune() == Pruned(0, 0, 0)


def test_an_age_that_is_given_holds_for_failed_jobs_too(store: Store, clock: FakeClock) -> None:
    fail(store, add(store, max_attempts=1))
    clock.advance(HOUR)
    assert store.history.prune(older=MINUTE).jobs == 1


@pytest.mark.parametrize("most", [None, 1])
def test_a_dry_run_says_what_would_be_forgotten_and_forgets_nothing(
    store: Store, clock: FakeClock, most: int | None
) -> None:
    for job in add_many(store, 3):
        finish(store, job)
    store.workers.deregister(register(store))
    clock.advance(HOUR)
    for job in add_many(store, 3):
        finish(store, job)
    before = [rows(store, f"SELECT count(*) FROM {table}") for table in ("job", "run", "event", "worker")]
    planned = store.history.prune(older=MINUTE, most=most, plan=True)
    assert [rows(store, f"SELECT count(*) FROM {table}") for table in ("job", "run", "event", "worker")] == before
    assert planned.jobs == (3 if most is None else 5) and planned.events and planned.workers == 1
    assert store.history.prune(older=MINUTE, most=most) == planned


def test_a_step_looks_at_no_more_rows_than_it_may_wherever_the_old_ones_are(store: Store, clock: FakeClock) -> None:
    first, *_, last = add_many(store, 100)
    for job in (first, last):
        finish(store, job)
    clock.advance(HOUR)
    stride = Stride(10)
    steps = [step.jobs for step in store.history.steps(MINUTE, stride=stride)]
    assert steps[:10] == [1] * 9 + [2], "eight steps of ten found nothing"
    assert len(ids(store)) == 98


def test_runs_go_with_their_jobs_and_counts_follow(store: Store, clock: FakeClock) -> None:
    old, new = add_many(store, 2)
    finish(store, old)
    clock.advance(HOUR)
    finish(store, new)
    store.history.prune(older=SECOND)
    assert [job for (job,) in rows(store, "SELECT job FROM run")] == [new]
    assert store.queues.list()[0].counts["done"] == 1


@pytest.mark.parametrize("by", ["age", "number"])
def test_what_an_unfinished_job_waits_for_is_kept(store: Store, clock: FakeClock, by: str) -> None:
    done, failed, needless = add_many(store, 3, max_attempts=1)
    still_needed = add(store)
    waiting = add(store, after=[done, failed, still_needed])
    finish(store, done)
    fail(store, failed)
    finish(store, needless)
    clock.advance(HOUR)
    store.history.prune(older=SECOND) if by == "age" else store.history.prune(older=DAY, most=0)
    assert ids(store) == [done, failed, still_needed, waiting]


def test_what_only_final_jobs_waited_for_is_forgotten_with_its_dependency(store: Store, clock: FakeClock) -> None:
    needed = add(store)
    job = add(store, after=[needed])
    finish(store, needed)
    finish(store, job)
    clock.advance(HOUR)
    assert store.history.prune(older=SECOND).jobs == 2
    assert rows(store, "SELECT * FROM dependency") == []


def test_per_queue_only_the_newest_so_many_are_kept(store: Store) -> None:
    many, few = add_many(store, 10), add_many(store, 2, queue="few")
    for job in [*many, *few]:
        finish(store, job)
    assert store.history.prune(most=3).jobs == 7
    assert ids(store) == [*many[7:], *few]


def test_more_than_a_batch_is_forgotten_in_batches_with_word_of_each(store: Store, clock: FakeClock) -> None:
    jobs = add_many(store, 1200)
    for job in jobs:
        store.jobs.cancel(job)
    clock.advance(HOUR)
    told: list[int] = []
    assert store.history.prune(older=SECOND, told=told.append).jobs == 1200
    assert told == [500, 1000, 1200]


def test_old_events_and_gone_workers_are_forgotten_too(store: Store, clock: FakeClock) -> None:
    gone, dead = register(store), register(store)
    store.workers.deregister(gone)
    clock.advance(HOUR)
    store.tick()
    assert store.workers.certificate(dead)
    here = register(store)
    clock.advance(10 * SECOND)
    pruned = store.history.prune(older=30 * SECOND)
    assert pruned.workers == 2 and pruned.events == 3
    assert [worker.id for worker in store.workers.list(gone_too=True)] == [here]
    assert store.workers.certificate(dead) is None


def test_a_key_is_free_again_once_its_job_is_forgotten(store: Store, clock: FakeClock) -> None:
    first = add(store, key="k")
    finish(store, first)
    clock.advance(HOUR)
    store.history.prune(older=SECOND)
    assert add(store, key="k") != first
