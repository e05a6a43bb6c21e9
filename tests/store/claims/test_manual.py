"""Claims by hand: one winner, a lease on the store's clock, a token on every write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done, Failed, Snoozed
from rota.core.errors import BadInput, Conflict, NotFound, Stale, UnknownWorker
from rota.core.event import JobMoved
from rota.core.job import ACTIVE, DONE, FAILED, READY
from rota.core.times import HOUR, MINUTE, SECOND
from tests.support.stores import again, everything
from tests.support.work import add, add_many, claim, finish, last_event, register, status

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Claim
    from rota.store.store import Store
    from tests.support.clock import FakeClock

WRITES: list[Callable[[Store, Claim], object]] = [
    lambda store, held: store.claims.renew(held),
    lambda store, held: store.claims.release(held, "a note"),
    lambda store, held: store.claims.settle(held, Done()),
    lambda store, held: store.claims.settle(held, Failed("x")),
    lambda store, held: store.claims.settle(held, Snoozed(SECOND)),
]
each_write = pytest.mark.parametrize("write", WRITES, ids=["renew", "release", "done", "fail", "snooze"])


def test_a_claim_is_its_workers_until_its_lease_ends(store: Store, clock: FakeClock) -> None:
    job, worker = add(store), register(store)
    held = claim(store, job, worker, 5 * MINUTE)
    assert (held.job_id, held.worker_id, held.claimed_at) == (job, worker, clock.now())
    assert held.lease_expires_at == clock.now() + 5 * MINUTE
    found = store.jobs.get(job)
    assert (found.status, found.token, found.worker_id) == (ACTIVE, held.token, worker)
    assert store.claims.held(job, worker) == held


def test_the_lease_is_the_setting_unless_given(store: Store, clock: FakeClock) -> None:
    assert claim(store, add(store)).lease_expires_at == clock.now() + 30 * MINUTE


@pytest.mark.parametrize("lease", [0, -1])
def test_a_lease_of_nothing_is_refused_and_changes_nothing(store: Store, lease: int) -> None:
    job, taken = add(store), claim(store, add(store))
    before = everything(store)
    attempts: list[Callable[[], Claim]] = [
        lambda: claim(store, job, None, lease),
        lambda: store.claims.take(lease=lease),
        lambda: store.claims.renew(taken, lease),
    ]
    for attempt in attempts:
        with pytest.raises(BadInput, match="a lease in microseconds must be a whole number from 1 to"):
            attempt()
    assert everything(store) == before


def test_a_job_that_someone_holds_is_refused_and_says_who(store: Store) -> None:
    job, worker = add(store), register(store)
    claim(store, job, worker)
    with pytest.raises(Conflict, match=f"job {job} is claimed by {worker} until 20"):
        claim(store, job, register(store))


def test_a_job_that_is_over_is_refused(store: Store) -> None:
    job = add(store)
    finish(store, job)
    with pytest.raises(Conflict, match=f"job {job} is done already"):
        claim(store, job)


def test_a_claim_of_nothing_or_by_nobody_is_refused(store: Store) -> None:
    with pytest.raises(NotFound, match="there is no job 5"):
        claim(store, 5)
    job = add(store)
    with pytest.raises(UnknownWorker, match="worker worker-zzzzzzzz is not registered"):
        claim(store, job, "worker-zzzzzzzz")
    assert status(store, job) == READY


def test_without_a_worker_the_users_own_holds_it_and_only_its_lease_judges_it(store: Store, clock: FakeClock) -> None:
    job = add(store)
    held = claim(store, job, None, HOUR)
    worker = store.workers.get(store.workers.implicit_id())
    assert held.worker_id == worker.id and "@" in worker.name and worker.heartbeat_interval is None
    clock.advance(HOUR - 1)
    store.reconcile()
    assert status(store, job) == ACTIVE and store.workers.get(worker.id).status == "busy"
    claim(store, add(store))
    assert [each.id for each in store.workers.list()] == [worker.id], "the same one every time"


def test_tokens_only_grow(store: Store) -> None:
    job, tokens = add(store), []
    for _ in range(5):
        held = claim(store, job)
        tokens.append(held.token)
        store.claims.release(held)
    assert tokens == sorted(set(tokens))


def test_a_lapsed_claim_is_taken_by_another_in_the_same_transaction(store: Store, clock: FakeClock) -> None:
    job, loser, winner = add(store), register(store, every=HOUR), register(store, every=HOUR)
    lost = claim(store, job, loser, MINUTE)
    clock.advance(MINUTE - 1)
    with pytest.raises(Conflict):
        claim(store, job, winner)
    clock.advance(1)
    before = last_event(store)
    held = claim(store, job, winner)
    assert held.token > lost.token
    (event,) = store.events.after(before)
    assert [move.verb for move in event.of(JobMoved)] == ["expire", "claim"]
    (run,) = store.claims.runs(job)
    assert (run.token, run.worker_id, run.status, run.reason) == (lost.token, loser, "expired", "lapse")
    assert store.jobs.get(job).attempts == 1, "a lapse spends an attempt"


@each_write
def test_the_stale_holder_is_refused_and_changes_nothing(
    store: Store, clock: FakeClock, write: Callable[[Store, Claim], object]
) -> None:
    job = add(store)
    lost = claim(store, job, register(store, every=HOUR), MINUTE)
    clock.advance(MINUTE)
    winner = register(store, every=HOUR)
    claim(store, job, winner)
    before = everything(store)
    with pytest.raises(Stale, match=f"is not held by .* any more: {winner} holds it"):
        write(store, lost)
    assert everything(store) == before


@each_write
def test_a_token_that_never_was_is_refused_and_changes_nothing(
    store: Store, write: Callable[[Store, Claim], object]
) -> None:
    held = claim(store, add(store))
    before = everything(store)
    with pytest.raises(Stale):
        write(store, held.replace(token=held.token + 1))
    assert everything(store) == before


def test_a_lapsed_claim_that_nobody_took_can_be_settled_but_not_renewed(store: Store, clock: FakeClock) -> None:
    job = add(store)
    held = claim(store, job, register(store, every=HOUR), MINUTE)
    clock.advance(MINUTE)
    with pytest.raises(Stale, match="the lease on job 1 ran out at 20"):
        store.claims.renew(held)
    store.claims.settle(held, Done())
    assert status(store, job) == DONE


def test_a_lapsed_claim_that_tending_took_back_can_not_be_settled(store: Store, clock: FakeClock) -> None:
    job = add(store)
    held = claim(store, job, None, MINUTE)
    clock.advance(MINUTE)
    store.tick()
    assert status(store, job) == READY
    with pytest.raises(Stale, match="it is ready"):
        store.claims.settle(held, Done())


def test_a_refused_claim_still_keeps_what_it_found_out(store: Store, clock: FakeClock) -> None:
    job = add(store, max_attempts=1)
    claim(store, job, None, MINUTE)
    clock.advance(MINUTE)
    with pytest.raises(Conflict, match="is failed already"):
        claim(store, job)
    assert status(store, job) == FAILED, "what the refusal says is what the store holds"


def test_a_renewal_extends_the_lease_and_never_shortens_it(store: Store, clock: FakeClock) -> None:
    held = claim(store, add(store), None, HOUR)
    clock.advance(MINUTE)
    assert store.claims.renew(held, SECOND).lease_expires_at == held.lease_expires_at
    renewed = store.claims.renew(held)
    assert renewed.lease_expires_at == clock.now() + HOUR, "by default as long as it was claimed for"
    assert renewed.renewed_count == 2
    assert store.claims.renew(held, 2 * HOUR).lease_expires_at == clock.now() + 2 * HOUR


def test_renewals_have_no_number_limit(store: Store, clock: FakeClock) -> None:
    held = claim(store, add(store), register(store), MINUTE)
    for _ in range(50):
        clock.advance(59 * SECOND)
        held = store.claims.renew(held)
    assert held.renewed_count == 50


def test_a_time_out_caps_the_lease_and_its_renewals(store: Store, clock: FakeClock) -> None:
    job = add(store, timeout=10 * MINUTE)
    started = clock.now()
    held = claim(store, job, register(store, every=HOUR), HOUR)
    assert held.lease_expires_at == started + 10 * MINUTE
    clock.advance(9 * MINUTE)
    assert store.claims.renew(held).lease_expires_at == started + 10 * MINUTE
    clock.advance(MINUTE)
    store.tick()
    assert status(store, job) == READY


def test_a_claim_is_seen_through_another_connection_at_once(store: Store) -> None:
    job = add(store)
    with again(store) as other:
        claim(store, job)
        with pytest.raises(Conflict):
            claim(other, job)


def test_the_holder_is_found_by_worker_or_token_and_nobody_else(store: Store) -> None:
    job, worker = add(store), register(store)
    held = claim(store, job, worker)
    assert store.claims.held(job, token=held.token) == held
    for worker_id, token in ((register(store), None), (None, None), (None, held.token + 1), (worker, held.token + 1)):
        with pytest.raises(Stale):
            store.claims.held(job, worker_id, token)


def test_a_worker_is_told_apart_that_settled_its_last_claim_itself(store: Store, clock: FakeClock) -> None:
    job, worker, other = add(store), register(store, every=HOUR), register(store, every=HOUR)
    held = claim(store, job, worker)
    assert not store.claims.is_settled_by(job, worker)
    store.claims.settle(held, Done())
    assert store.claims.is_settled_by(job, worker) and not store.claims.is_settled_by(job, other)
    store.jobs.retry(job)
    claim(store, job, other, MINUTE)
    assert not store.claims.is_settled_by(job, worker), "someone has claimed it since"
    clock.advance(MINUTE)
    store.tick()
    assert not store.claims.is_settled_by(job, other), "a lapse is nobody's word"


def test_tending_expires_a_bounded_number_and_the_next_goes_on(store: Store, clock: FakeClock) -> None:
    worker = register(store, every=HOUR)
    for job in add_many(store, 300):
        claim(store, job, worker, MINUTE)
    clock.advance(MINUTE)
    store.tick()
    assert store.queues.list()[0].counts[READY] == 256
    store.tick()
    assert store.queues.list()[0].counts[READY] == 300


def test_what_is_held_is_listed_longest_held_first_without_rotas_own(store: Store, clock: FakeClock) -> None:
    first, second, _ = add(store), add(store), add(store)
    claim(store, second)
    clock.advance(SECOND)
    claim(store, first)
    assert [job.id for job in store.jobs.held()] == [second, first]
    assert [job.id for job in store.jobs.held(limit=1)] == [second]
