"""Reconcile makes the store true, once; a plan changes nothing; a live claim is never taken.

After a restore, no number is given out that the lost time may have given out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.event import StoreChanged
from rota.core.job import ACTIVE, BLOCKED, READY
from rota.core.times import HOUR, MINUTE, SECOND
from rota.store.maintenance.reconcile import FASTEST, LEAST, Reconciled, raise_numbers
from tests.support.stores import again, everything, rows
from tests.support.work import Crew, add, add_many, claim, finish, register, status, told

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock

NOTHING = Reconciled(0, 0, 0, 0, 0)


def spoil(store: Store, clock: FakeClock) -> None:
    """One of everything that reconcile looks for."""
    dead, lapsing, orphan, busy = (register(store, every=HOUR) for _ in range(4))
    silent = register(store, every=SECOND)
    claim(store, add(store, "of the dead"), silent, HOUR)
    clock.advance(1)
    store.workers.heartbeat(silent)
    claim(store, add(store, "lapsing"), lapsing, MINUTE)
    claim(store, add(store, "orphaned"), orphan, HOUR)
    stuck_on = add(store, "needed")
    add(store, "stuck", after=[stuck_on])
    rows(store, "DELETE FROM worker WHERE id = :id", id=orphan)
    rows(store, "DELETE FROM dependency")
    rows(store, "UPDATE worker SET status = 'busy' WHERE id = :id", id=busy)
    assert dead
    clock.advance(MINUTE)


def test_it_finds_the_dead_the_lapsed_the_orphaned_the_stuck_and_the_stale(store: Store, clock: FakeClock) -> None:
    spoil(store, clock)
    assert store.reconcile() == Reconciled(1, 1, 1, 1, 1)
    assert {job.status for job in store.jobs.list()} == {READY}
    assert rows(store, "SELECT count(*) FROM worker WHERE status = 'busy'") == [(0,)]


def test_a_second_run_changes_nothing(store: Store, clock: FakeClock) -> None:
    spoil(store, clock)
    store.reconcile()
    before = everything(store)
    assert store.reconcile() == NOTHING
    assert everything(store) == before


def test_a_plan_says_the_same_and_changes_nothing(store: Store, clock: FakeClock) -> None:
    spoil(store, clock)
    before = everything(store)
    planned = store.reconcile(plan=True)
    assert everything(store) == before
    assert store.reconcile() == planned != NOTHING


def test_two_at_once_change_nothing_twice(store: Store, clock: FakeClock) -> None:
    spoil(store, clock)
    with again(store) as other:
        assert [store.reconcile(), other.reconcile()] == [Reconciled(1, 1, 1, 1, 1), NOTHING]


def test_it_never_takes_a_live_claim(store: Store, clock: FakeClock) -> None:
    by_hand, silent, watched = add(store), add(store), add(store)
    claim(store, by_hand, None, HOUR)
    claim(store, silent, register(store), HOUR)
    crew = Crew(store)
    crew.exchange()
    clock.advance(14 * SECOND)
    crew.renew()
    clock.advance(14 * SECOND)
    assert store.reconcile() == NOTHING
    assert [status(store, job) for job in (by_hand, silent, watched)] == [ACTIVE] * 3


def test_an_orphaned_claim_goes_back_unspent_and_where_it_rests(store: Store) -> None:
    needed = add(store)
    finish(store, needed)
    job, worker = add(store, after=[needed], max_attempts=1), register(store)
    held = claim(store, job, worker)
    store.jobs.retry(needed)
    rows(store, "DELETE FROM worker WHERE id = :id", id=worker)
    assert store.reconcile().orphaned_claims_released == 1
    found = store.jobs.get(job)
    assert (found.status, found.attempts) == (BLOCKED, 0), "not blindly ready"
    assert [(run.token, run.reason) for run in store.claims.runs(job)] == [(held.token, "orphaned")]


def test_a_job_that_waits_for_an_open_or_failed_one_is_not_stuck(store: Store) -> None:
    needed, hopeless = add(store), add(store)
    jobs = [add(store, after=[needed]), add(store, after=[hopeless])]
    store.jobs.cancel(hopeless)
    assert store.reconcile() == NOTHING
    assert [status(store, job) for job in jobs] == [BLOCKED, BLOCKED]


def test_however_much_is_wrong_one_run_mends_it_all(store: Store, clock: FakeClock) -> None:
    worker = register(store, every=HOUR)
    for job in add_many(store, 300):
        claim(store, job, worker, MINUTE)
    for _ in range(300):
        register(store, every=SECOND)
    clock.advance(MINUTE)
    planned = store.reconcile(plan=True)
    assert store.reconcile() == planned == Reconciled(300, 300, 0, 0, 0)
    assert store.reconcile() == NOTHING


def test_however_many_states_are_stale_one_run_mends_them_all(store: Store) -> None:
    for _ in range(300):
        register(store)
    rows(store, "UPDATE worker SET status = 'busy'")
    assert store.reconcile().stale_states_fixed == 300
    assert store.reconcile() == NOTHING


def test_however_many_jobs_are_stuck_one_run_mends_them_all(store: Store) -> None:
    needed = add(store)
    add_many(store, 6000, after=[needed])
    rows(store, "DELETE FROM dependency")
    assert store.reconcile().orphaned_jobs_recovered == 6000
    assert store.queues.list()[0].counts[READY] == 6001


def test_with_nothing_wrong_it_appends_no_event(store: Store) -> None:
    add(store)
    before = told(store)
    store.reconcile()
    assert told(store) == before


def test_at_least_a_million_ids_and_tokens_are_left_out_and_the_log_says_who_asked(store: Store) -> None:
    job = add(store)
    token = claim(store, job).token
    assert raise_numbers(store) == LEAST
    later = add(store)
    assert later > job + LEAST and claim(store, later).token > token + LEAST
    told = [fact for event in store.events.after("0") for fact in event.of(StoreChanged)]
    assert told == [StoreChanged("restore", "numbers", {"left_out": LEAST, "by": store.actor})]


def test_the_older_the_backup_the_more_is_left_out(store: Store, clock: FakeClock) -> None:
    job = add(store)
    clock.advance(24 * HOUR)
    assert raise_numbers(store) >= FASTEST * 24 * HOUR // SECOND
    assert add(store) > job + FASTEST * 24 * HOUR // SECOND
