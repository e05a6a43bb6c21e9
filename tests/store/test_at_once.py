"""Several write at once: each race is forced, with one change standing before its commit while another is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.core.claim import Done, Failed
from rota.core.errors import Conflict, Contended, Cycle, NothingReady, QueueFull, RotaError, Stale
from rota.core.event import QueueChanged
from rota.core.job import ACTIVE, BLOCKED, CANCELLED, DONE, READY
from rota.core.times import DAY, HOUR, MINUTE, SECOND
from rota.core.worker import Dead
from rota.store.claims.exchange import Idle, Report
from rota.store.engine import locks
from rota.store.engine.statements import FOLDER, read_statements
from rota.store.jobs.enqueue import NewJob
from rota.store.maintenance.reconcile import Reconciled
from rota.store.postgres.database import PostgresDatabase
from rota.store.workers.death import Death
from tests.support.inflight import beside, in_flight
from tests.support.stores import database_for_tests, make_store, rows
from tests.support.work import Crew, add, add_many, claim, finish, register, status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.core.frames.assignment import Assignment
    from rota.store.claims.exchange import Settled
    from rota.store.maintenance.prune import Pruned
    from rota.store.store import Store
    from tests.support.clock import FakeClock
    from tests.support.inflight import Change

pytestmark = pytest.mark.postgres

NOTHING = Reconciled(0, 0, 0, 0, 0)


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    """On the database where several can; at the end nothing is left behind, and the counters are true."""
    with make_store("postgres", tmp_path, clock) as opened:
        yield opened
        assert opened.reconcile() == NOTHING
        kept = {(queue, state): n for queue, state, n in opened.database.execute("tally.all", {}) if n}
        true = {(queue, state): n for queue, state, n in opened.database.execute("tally.true", {})}
        assert kept == true


def exchange(crew: Crew, *outcomes: Settled, room: int = 1) -> Change:
    idle = [Idle(worker, crew.queue, room) for worker in crew.workers if room]
    return lambda other: other.orchestrators.exchange(crew.id, crew.number, Report(outcomes, idle))


# two who want the same


def test_two_who_take_the_best_job_get_one_each_without_waiting(store: Store) -> None:
    first, second = add_many(store, 2)
    with in_flight(store, lambda own: own.claims.take()) as one:
        with beside(store, lambda own: own.claims.take(register(own))) as other:
            assert other.answer().job_id == second
        assert one.go_on().job_id == first


def test_of_two_who_claim_one_job_one_gets_it(store: Store) -> None:
    job, late = add(store), register(store)
    with (
        in_flight(store, lambda own: own.claims.claim(job)) as one,
        beside(store, lambda own: own.claims.claim(job, late)) as other,
    ):
        held = one.go_on()
        assert isinstance(other.answer(), Conflict)
    assert store.jobs.get(job).token == held.token


def test_a_job_that_its_last_holder_takes_again_meanwhile_is_not_changed_without_its_guard(store: Store) -> None:
    """Its row names the holder all the while, so that only its state tells that it was claimed in between."""
    job, crew = add(store), Crew(store)
    (held,) = crew.exchange().claims
    crew.exchange([(held.job_id, held.token, Done())], room=0)
    store.jobs.retry(job)
    assert store.jobs.get(job).orchestrator == crew.id

    def hold_it(own: Store) -> None:
        with own.write() as tx:
            locks.job(tx, job)

    with in_flight(store, exchange(crew)) as one, beside(store, hold_it) as other:
        assert other.waits()
        one.go_on()
        assert isinstance(other.answer(), Contended)


@pytest.mark.parametrize("held_by", ["orchestrator", "worker"])
def test_whoever_changes_a_claim_waits_for_its_holder(store: Store, held_by: str) -> None:
    """A change of another claim of the same orchestrator, or of the same worker, is in flight."""
    add_many(store, 2)
    if held_by == "orchestrator":
        crew = Crew(store, 2)
        one, other = crew.exchange().claims
        busy = exchange(crew, (one.job_id, one.token, Done()), room=0)
        changed = other.job_id
    else:
        worker = register(store)
        held = store.claims.claim(1, worker)
        changed = store.claims.claim(2, worker).job_id
        busy = lambda own: own.claims.renew(held, HOUR)  # noqa: E731

    def hold_it(own: Store) -> None:
        with own.write() as tx:
            locks.job(tx, changed)

    with in_flight(store, busy) as running, beside(store, hold_it) as waiting:
        assert waiting.waits()
        running.go_on()
        assert waiting.answer() is None


def test_two_exchanges_claim_different_jobs_in_order(store: Store) -> None:
    ids = add_many(store, 4)
    here, there = Crew(store), Crew(store)
    with in_flight(store, exchange(here, room=2)) as one:
        with beside(store, exchange(there, room=2)) as other:
            assert [each.job_id for each in other.answer().claims] == ids[2:]
        assert [each.job_id for each in one.go_on().claims] == ids[:2]


def test_a_key_that_two_add_at_once_is_one_job(store: Store) -> None:
    add(store)
    with in_flight(store, lambda own: add(own, key="k")) as one, beside(store, lambda own: add(own, key="k")) as other:
        assert other.waits()
        assert one.go_on() == other.answer()
    assert rows(store, "SELECT count(*) FROM job WHERE key = 'k'") == [(1,)]


def test_a_queue_and_a_person_that_two_bring_at_once_are_made_once(store: Store) -> None:
    with (
        in_flight(store, lambda own: add(own, queue="new")) as one,
        beside(store, lambda own: add(own, queue="new")) as other,
    ):
        jobs = [one.go_on(), other.answer()]
    told = [fact for event in store.events.after("0") for fact in event.of(QueueChanged, "make")]
    assert len(told) == 1
    with (
        in_flight(store, lambda own: own.claims.claim(jobs[0])) as one,
        beside(store, lambda own: own.claims.claim(jobs[1])) as other,
    ):
        assert one.go_on().worker_id == other.answer().worker_id


# limits


def test_a_full_queue_is_full_for_two_at_once(store: Store) -> None:
    store.queues.set("default", max_depth=3)
    with in_flight(store, lambda own: add_many(own, 2)) as one, beside(store, lambda own: add_many(own, 2)) as other:
        assert other.waits()
        one.go_on()
        assert isinstance(other.answer(), QueueFull)


def test_adding_to_a_queue_without_limits_waits_for_nobody(store: Store) -> None:
    add(store)
    with in_flight(store, lambda own: add_many(own, 2)), beside(store, lambda own: add_many(own, 2)) as other:
        assert len(other.answer()) == 2


def test_as_many_run_at_once_as_the_queue_allows_whoever_claims(store: Store) -> None:
    add_many(store, 5)
    store.queues.set("default", concurrency=3)
    here, there = Crew(store, workers=2), Crew(store, workers=2)
    with in_flight(store, exchange(here)) as one, beside(store, exchange(there)) as other:
        assert other.waits()
        assert (len(one.go_on().claims), len(other.answer().claims)) == (2, 1)


def test_a_rate_is_spent_once_whoever_claims(store: Store) -> None:
    add_many(store, 2)
    store.queues.set("default", rate="1/m")
    with in_flight(store, lambda own: own.claims.take()) as one, beside(store, lambda own: own.claims.take()) as other:
        assert one.go_on().job_id and isinstance(other.answer(), NothingReady)


def test_a_key_with_room_for_one_lets_one_in_whoever_adds(store: Store) -> None:
    store.queues.set("default", per_key=1)
    with (
        in_flight(store, lambda own: add(own, limit_key="k")) as one,
        beside(store, lambda own: add(own, limit_key="k")) as other,
    ):
        first, second = one.go_on(), other.answer()
    assert (status(store, first), status(store, second)) == (READY, BLOCKED)


def test_of_two_that_leave_a_key_at_once_each_lets_one_in(store: Store) -> None:
    store.queues.set("default", per_key=2)
    ids = add_many(store, 5, limit_key="k")
    held = [claim(store, job) for job in ids[:2]]
    with (
        in_flight(store, lambda own: own.claims.settle(held[0], Done())) as one,
        beside(store, lambda own: own.jobs.cancel(ids[1])) as other,
    ):
        one.go_on()
        other.answer()
    assert [status(store, job) for job in ids] == [DONE, CANCELLED, READY, READY, BLOCKED]


# dependencies


def test_two_dependencies_settled_at_once_let_their_job_go(store: Store) -> None:
    needed = add_many(store, 2)
    job = add(store, after=needed)
    held = [claim(store, each, register(store)) for each in needed]
    with (
        in_flight(store, lambda own: own.claims.settle(held[0], Done())) as one,
        beside(store, lambda own: own.claims.settle(held[1], Done())) as other,
    ):
        assert other.waits()
        one.go_on()
        assert other.answer() is True
    assert status(store, job) == READY


def test_two_dependencies_that_two_orchestrators_settle_at_once_let_their_job_go(store: Store) -> None:
    needed = add_many(store, 2)
    job = add(store, after=needed)
    here, there = Crew(store), Crew(store)
    (first,), (second,) = here.exchange().claims, there.exchange().claims
    with (
        in_flight(store, exchange(here, (first.job_id, first.token, Done()), room=0)) as one,
        beside(
            store,
            exchange(there, (second.job_id, second.token, Done()), room=0),
        ) as other,
    ):
        assert one.go_on().refused == other.answer().refused == []
    assert status(store, job) == READY


def test_a_job_added_to_wait_for_one_that_is_being_settled_is_let_go(store: Store) -> None:
    needed = add(store)
    held = claim(store, needed)
    with (
        in_flight(store, lambda own: own.claims.settle(held, Done())) as one,
        beside(store, lambda own: add(own, after=[needed])) as other,
    ):
        assert other.waits()
        one.go_on()
        assert status(store, other.answer()) == READY


def test_one_that_is_settled_while_a_job_is_added_to_wait_for_it_lets_it_go(store: Store) -> None:
    needed = add(store)
    held = claim(store, needed)
    with (
        in_flight(store, lambda own: add(own, after=[needed])) as one,
        beside(store, lambda own: own.claims.settle(held, Done())) as other,
    ):
        assert other.waits()
        job = one.go_on()
        other.answer()
    assert status(store, job) == READY


def test_an_exchange_that_settles_one_while_a_job_is_added_to_wait_for_it_lets_it_go(store: Store) -> None:
    needed, crew = add(store), Crew(store)
    (held,) = crew.exchange().claims
    with (
        in_flight(store, lambda own: add(own, after=[needed])) as one,
        beside(
            store,
            exchange(crew, (needed, held.token, Done()), room=0),
        ) as other,
    ):
        job = one.go_on()
        assert other.answer().refused == []
    assert status(store, job) == READY


def test_two_who_would_close_a_circle_at_once_do_not(store: Store) -> None:
    a, b, c, d = add_many(store, 4)
    store.jobs.block(b, c)
    store.jobs.block(d, a)
    with (
        in_flight(store, lambda own: own.jobs.block(a, b)) as one,
        beside(store, lambda own: own.jobs.block(c, d)) as other,
    ):
        assert other.waits()
        one.go_on()
        assert isinstance(other.answer(), Cycle)


def test_a_job_tried_again_while_what_it_waits_for_is_settled_is_not_stuck(store: Store) -> None:
    needed = add(store)
    job = add(store, after=[needed])
    store.jobs.cancel(job)
    held = claim(store, needed)
    with (
        in_flight(store, lambda own: own.jobs.retry(job)) as one,
        beside(store, lambda own: own.claims.settle(held, Done())) as other,
    ):
        one.go_on()
        other.answer()
    assert status(store, job) == READY


# the end of claims


@pytest.mark.parametrize("first", ["settle", "cancel"])
def test_cancelled_and_settled_at_once_it_ends_once(store: Store, first: str) -> None:
    job = add(store)
    held = claim(store, job)
    changes = {"settle": lambda own: own.claims.settle(held, Done()), "cancel": lambda own: own.jobs.cancel(job)}
    with in_flight(store, changes.pop(first)) as one, beside(store, changes.popitem()[1]) as other:
        assert other.waits()
        assert not isinstance(one.go_on(), RotaError)
        assert isinstance(other.answer(), Stale if first == "cancel" else Conflict)
    assert status(store, job) == (CANCELLED if first == "cancel" else DONE)
    assert len(store.claims.runs(job)) == 1


@pytest.mark.parametrize("first", ["exchange", "cancel"])
def test_cancelled_and_settled_by_an_exchange_at_once_it_ends_once(store: Store, first: str) -> None:
    job, crew = add(store), Crew(store)
    (held,) = crew.exchange().claims
    changes = {
        "exchange": exchange(crew, (job, held.token, Done()), room=0),
        "cancel": lambda own: own.jobs.cancel(job),
    }
    with in_flight(store, changes.pop(first)) as one, beside(store, changes.popitem()[1]) as other:
        assert other.waits()
        answers = {first: one.go_on(), "other": other.answer()}
    if first == "cancel":
        assert answers["other"].refused == [held.token] and status(store, job) == CANCELLED
    else:
        assert isinstance(answers["other"], Conflict) and status(store, job) == DONE
    assert len(store.claims.runs(job)) == 1


def test_a_claim_that_is_being_renewed_does_not_lapse(store: Store, clock: FakeClock) -> None:
    job, worker = add(store), register(store, every=HOUR)
    held = claim(store, job, worker, MINUTE)
    clock.advance(59 * SECOND)
    with in_flight(store, lambda own: own.claims.renew(held, HOUR)) as one:
        clock.advance(2 * SECOND)
        with beside(store, lambda own: own.tick()) as other:
            assert other.answer() is None, "tending waits for nobody"
        assert one.go_on().renewed_count == 1
    store.tick()
    assert status(store, job) == ACTIVE


def test_a_lapsed_claim_that_is_being_settled_is_left_to_its_holder(store: Store, clock: FakeClock) -> None:
    job = add(store)
    held = claim(store, job, register(store, every=HOUR), MINUTE)
    clock.advance(2 * MINUTE)
    with in_flight(store, lambda own: own.claims.settle(held, Done())) as one:
        with beside(store, lambda own: own.tick()) as other:
            assert other.answer() is None
        assert one.go_on() is True
    assert status(store, job) == DONE and [run.verb for run in store.claims.runs(job)] == ["finish"]


def test_a_lapsed_claim_that_is_taken_while_it_is_settled_ends_once(store: Store, clock: FakeClock) -> None:
    job, taker = add(store), register(store, every=HOUR)
    held = claim(store, job, register(store, every=HOUR), MINUTE)
    clock.advance(2 * MINUTE)
    with (
        in_flight(store, lambda own: own.claims.claim(job, taker)) as one,
        beside(store, lambda own: own.claims.settle(held, Done())) as other,
    ):
        assert one.go_on().worker_id == taker
        assert isinstance(other.answer(), Stale)
    assert [run.verb for run in store.claims.runs(job)] == ["expire"] and status(store, job) == ACTIVE


def test_two_who_tend_expire_a_claim_once(store: Store, clock: FakeClock) -> None:
    jobs, worker = add_many(store, 3), register(store, every=HOUR)
    for job in jobs:
        claim(store, job, worker, MINUTE)
    clock.advance(2 * MINUTE)
    with in_flight(store, lambda own: own.tick()) as one:
        with beside(store, lambda own: own.tick()) as other:
            assert other.answer() is None
        one.go_on()
    assert [len(store.claims.runs(job)) for job in jobs] == [1, 1, 1]


# death


def test_a_claim_in_flight_keeps_its_worker_from_being_judged(store: Store, clock: FakeClock) -> None:
    job, worker = add(store), register(store, every=SECOND)
    with in_flight(store, lambda own: own.claims.claim(job, worker)) as one:
        clock.advance(MINUTE)
        with beside(store, lambda own: own.tick()) as other:
            assert other.answer() is None, "tending waits for nobody"
        held = one.go_on()
    assert store.jobs.get(job).token == held.token and store.workers.get(worker).status == "busy"


def test_a_claim_in_flight_while_its_worker_leaves_is_given_back(store: Store) -> None:
    job, worker = add(store), register(store)
    with (
        in_flight(store, lambda own: own.claims.claim(job, worker)) as one,
        beside(store, lambda own: own.workers.deregister(worker)) as other,
    ):
        assert other.waits()
        one.go_on()
        assert other.answer() == 1
    assert status(store, job) == READY and store.workers.held(worker) == []


@pytest.mark.parametrize("how", ["bury", "record_death"])
def test_a_handout_in_flight_while_its_worker_is_buried_goes_back(store: Store, how: str) -> None:
    job, crew = add(store), Crew(store)
    (worker,) = crew.workers
    death = Death(worker, "worker:default:0", "signaled", "signal 9", None, 9)
    burials = {
        "bury": lambda own: own.orchestrators.mark_dead(worker, Dead("signaled", "signal 9")),
        "record_death": lambda own: own.orchestrators.record_death(death, Report(), own.settings.restarts),
    }
    with in_flight(store, exchange(crew)) as one, beside(store, burials[how]) as other:
        assert other.waits()
        assert len(one.go_on().claims) == 1
        assert not isinstance(other.answer(), RotaError)
    assert status(store, job) == READY and store.workers.get(worker).status == "dead"


def test_a_worker_being_buried_is_handed_nothing(store: Store) -> None:
    job, crew = add(store), Crew(store)
    with (
        in_flight(store, lambda own: own.orchestrators.mark_dead(crew.workers[0], Dead("signaled", "9"))) as one,
        beside(
            store,
            exchange(crew),
        ) as other,
    ):
        assert other.waits()
        one.go_on()
        assert other.answer().claims == []
    assert status(store, job) == READY


def test_an_orchestrator_that_is_exchanging_does_not_lapse(store: Store, clock: FakeClock) -> None:
    add(store)
    crew, judge = Crew(store), Crew(store)
    (held,) = crew.exchange().claims
    clock.advance(10 * SECOND)
    judge.renew()
    with in_flight(store, exchange(crew, (held.job_id, held.token, Failed("x")), room=0)) as one:
        clock.advance(6 * SECOND)
        with beside(store, lambda own: own.tick()) as other:
            assert other.answer() is None, "tending waits for nobody"
        assert one.go_on().refused == []
    clock.advance(HOUR)
    store.reconcile()
    store.tick()


def test_an_orchestrator_being_given_up_exchanges_nothing(store: Store, clock: FakeClock) -> None:
    job = add(store)
    crew, judge = Crew(store), Crew(store)
    (held,) = crew.exchange().claims
    for _ in range(4):
        clock.advance(4 * SECOND)
        judge.renew()
    with (
        in_flight(store, lambda own: own.tick()) as one,
        beside(
            store,
            exchange(crew, (job, held.token, Done())),
        ) as other,
    ):
        assert other.waits()
        one.go_on()
        assert isinstance(other.answer(), Stale)
    assert status(store, job) == READY


# people


def test_a_pause_is_answered_once_no_claim_is_in_flight(store: Store) -> None:
    job, second = add_many(store, 2)
    with (
        in_flight(store, lambda own: own.claims.take()) as one,
        beside(store, lambda own: own.queues.pause("default")) as other,
    ):
        assert other.waits()
        assert one.go_on().job_id == job
        assert other.answer() == ["default"]
    with pytest.raises(NothingReady):
        store.claims.take()
    assert status(store, second) == READY


def test_two_who_reconcile_at_once_mend_once(store: Store, clock: FakeClock) -> None:
    claim(store, add(store), register(store, every=HOUR), MINUTE)
    clock.advance(2 * MINUTE)
    with in_flight(store, lambda own: own.reconcile()) as one, beside(store, lambda own: own.reconcile()) as other:
        found = [one.go_on(), other.answer()]
    assert sorted(found, key=str) == sorted([Reconciled(0, 1, 0, 0, 0), NOTHING], key=str)


def test_a_job_that_is_tried_again_is_not_pruned(store: Store, clock: FakeClock) -> None:
    jobs = add_many(store, 2)
    for job in jobs:
        finish(store, job)
    clock.advance(HOUR)
    with in_flight(store, lambda own: own.jobs.retry(jobs[0])) as one:
        with beside(store, lambda own: own.history.prune(older=MINUTE)) as other:
            assert other.answer().jobs == 1
        one.go_on()
    assert [job.id for job in store.jobs.list()] == [jobs[0]]


@pytest.mark.parametrize("statement", ["job.prunable", "job.surplus"])
def test_a_job_that_another_began_to_wait_for_since_the_look_is_not_pruned(
    store: Store, clock: FakeClock, statement: str
) -> None:
    """The look of `prune` is held up between its snapshot and its locks by a gate in its own statement."""
    jobs = add_many(store, 2)
    for job in jobs:
        store.jobs.cancel(job)
    clock.advance(HOUR)

    def prune(own: Store) -> Pruned:
        assert isinstance(own.database, PostgresDatabase)
        noun, _, verb = statement.partition(".")
        text = read_statements(f"{FOLDER}/{noun}.sql")[verb]
        gated = text.replace("FROM job\n", "FROM job CROSS JOIN (SELECT pg_advisory_xact_lock(4711)) AS gate\n", 1)
        own.database.texts.own[statement] = gated.replace("$skip_locked", "FOR UPDATE OF job SKIP LOCKED")
        return own.history.prune(MINUTE) if statement == "job.prunable" else own.history.prune(DAY, 0)

    with psycopg.connect(database_for_tests(), autocommit=True) as gate:
        gate.execute("SELECT pg_advisory_lock(4711)")
        with beside(store, prune) as other:
            assert other.waits()
            (waiting,) = store.jobs.add_many([NewJob("a", after=[jobs[0]])])
            gate.execute("SELECT pg_advisory_unlock(4711)")
            assert other.answer().jobs == 1
    assert status(store, waiting) == BLOCKED
    assert {job.id for job in store.jobs.list()} == {jobs[0], waiting}


def test_slots_that_two_hosts_take_at_once_have_numbers_of_their_own(store: Store) -> None:
    with (
        in_flight(store, lambda own: own.slots.take("main", "here", {"q": 2})) as one,
        beside(store, lambda own: own.slots.take("main", "there", {"q": 2})) as other,
    ):
        names = [slot.name for slot in one.go_on()] + [slot.name for slot in other.answer()]
    assert sorted(names) == [f"worker:q:{n}" for n in range(4)]


def test_what_the_database_undid_for_others_sake_is_made_again(store: Store) -> None:
    """Two who wait for each other: the database undoes one, and both end well."""
    first, second = add_many(store, 2)

    def both(one: int, two: int) -> Change:
        return lambda own: own.jobs.add_many([NewJob("a", after=[one]), NewJob("b", after=[two])])

    with in_flight(store, both(first, second)) as one, beside(store, both(second, first)) as other:
        assert len(one.go_on()) == len(other.answer()) == 2


# orphans, whose claims change their guard


def orphaned(store: Store) -> tuple[int, str, Assignment, Crew]:
    """A job in the hand of a worker whose orchestrator is about to be gone."""
    job, crew = add(store), Crew(store)
    (held,) = crew.exchange().claims
    return job, crew.workers[0], held, crew


def test_a_burial_beside_a_worker_that_becomes_an_orphan_waits_and_takes_its_job_back(store: Store) -> None:
    job, worker, held, _ = orphaned(store)
    with (
        in_flight(store, lambda own: own.orphans.begin(worker, [held.token], [])) as one,
        beside(store, lambda own: own.orchestrators.mark_dead(worker, Dead("signaled", "signal 9"))) as other,
    ):
        assert other.waits()
        assert one.go_on() == {held.token}
        assert not isinstance(other.answer(), RotaError)
    assert status(store, job) == READY and store.workers.get(worker).status == "dead"
    assert not store.orphans.renew(worker, [(job, held.token)])


def test_a_worker_becomes_no_orphan_while_it_is_buried(store: Store) -> None:
    job, worker, held, _ = orphaned(store)
    with (
        in_flight(store, lambda own: own.orchestrators.mark_dead(worker, Dead("signaled", "signal 9"))) as one,
        beside(store, lambda own: own.orphans.begin(worker, [held.token], [])) as other,
    ):
        assert other.waits()
        one.go_on()
        assert other.answer() == frozenset(), "there is nothing to go on with"
    assert status(store, job) == READY


def test_a_cancel_beside_a_worker_that_becomes_an_orphan_ends_its_claim_once(store: Store) -> None:
    job, worker, held, _ = orphaned(store)
    with (
        in_flight(store, lambda own: own.orphans.begin(worker, [held.token], [])) as one,
        beside(store, lambda own: own.jobs.cancel(job)) as other,
    ):
        assert other.waits()
        assert one.go_on() == {held.token}
        assert not isinstance(other.answer(), RotaError)
    store.orphans.settle(worker, (job, held.token, Done()))
    assert status(store, job) == CANCELLED


def test_an_exchange_beside_a_take_over_waits_and_is_refused(store: Store) -> None:
    job, worker, held, crew = orphaned(store)
    newer = store.orchestrators.join()
    with (
        in_flight(store, lambda own: own.orchestrators.take_over(newer, "main", lambda process: False)) as one,
        beside(store, exchange(crew, (job, held.token, Done()))) as other,
    ):
        assert other.waits()
        assert one.go_on() == []
        assert isinstance(other.answer(), Stale)
    assert status(store, job) == READY and store.workers.get(worker).status == "dead"
