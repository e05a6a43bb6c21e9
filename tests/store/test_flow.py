"""Flow in the store: jobs of one call that follow each other, waiting for an end of any kind, results, debounce."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rota.core.claim import Done, Failed
from rota.core.errors import BadInput, Conflict, QueueFull, Stale
from rota.core.job import ACTIVE, BLOCKED, DONE, READY, SCHEDULED, NewJob
from rota.core.times import MINUTE, SECOND
from rota.store.maintenance.reconcile import Reconciled
from tests.support.inflight import beside, in_flight
from tests.support.stores import make_store, rows, watch_writes
from tests.support.work import Crew, add, claim, fail, finish, status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store
    from tests.support.clock import FakeClock

NOTHING = Reconciled(0, 0, 0, 0, 0)


@pytest.fixture
def true_store(store: Store) -> Iterator[Store]:
    """At the end nothing is left to mend, and the counters are true."""
    yield store
    assert store.reconcile() == NOTHING
    kept = {(queue, state): n for queue, state, n in store.database.execute("tally.all", {}) if n}
    assert kept == {(queue, state): n for queue, state, n in store.database.execute("tally.true", {})}


def a_batch(store: Store, count: int, until: str = "done", **fields: Any) -> tuple[list[int], int]:
    new = [NewJob(f"part {n}", **fields) for n in range(count)]
    *parts, then = store.jobs.add_many([*new, NewJob("then", follows=range(count), until=until)])
    return parts, then


# follows


def test_jobs_of_one_call_wait_for_those_they_follow(true_store: Store) -> None:
    store = true_store
    first, second, third = store.jobs.add_many([NewJob("a"), NewJob("b", follows=[0]), NewJob("c", follows=[0, 1])])
    assert [store.jobs.get(id).after for id in (first, second, third)] == [(), (first,), (first, second)]
    assert [status(store, id) for id in (first, second, third)] == [READY, BLOCKED, BLOCKED]
    finish(store, first)
    finish(store, second)
    assert status(store, third) == READY


def test_a_job_that_follows_none_of_a_batch_is_ready_at_once(true_store: Store) -> None:
    parts, then = a_batch(true_store, 0)
    assert parts == [] and status(true_store, then) == READY


def test_a_followed_key_that_was_met_again_is_the_job_that_has_it(true_store: Store) -> None:
    store = true_store
    known = add(store, key="k")
    over = add(store, key="o")
    finish(store, over)
    *_, then = store.jobs.add_many([NewJob("a", key="k"), NewJob("b", key="o"), NewJob("then", follows=[0, 1])])
    assert store.jobs.get(then).after == (known, over) and status(store, then) == BLOCKED
    finish(store, known)
    assert status(store, then) == READY


@pytest.mark.parametrize("place", [-1, 1, 2])
def test_only_jobs_before_it_can_be_followed_and_nothing_is_added(store: Store, place: int) -> None:
    written = watch_writes(store)
    with pytest.raises(BadInput, match=r"this one has place 1|must be a whole number from 0"):
        store.jobs.add_many([NewJob("a"), NewJob("b", follows=[place])])
    assert not written()


# until


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_until_final_any_end_lets_it_go_on_and_until_done_none_but_success(true_store: Store, end: str) -> None:
    store = true_store
    needed = add(store)
    patient, strict = add(store, after=[needed], until="final"), add(store, after=[needed])
    if end == "failed":
        fail(store, needed, again=False)
    else:
        store.jobs.cancel(needed)
    assert (status(store, patient), status(store, strict)) == (READY, BLOCKED)
    assert "waits for job" in store.jobs.why(strict)


def test_until_final_a_failure_that_is_tried_again_is_no_end(true_store: Store) -> None:
    store = true_store
    (part,), then = a_batch(store, 1, "final")
    fail(store, part)
    assert (status(store, part), status(store, then)) == (SCHEDULED, BLOCKED)
    assert f"job {part} (scheduled)" in store.jobs.why(then)


def test_a_batch_waits_for_the_last_of_its_ends(true_store: Store) -> None:
    store = true_store
    parts, then = a_batch(store, 3, "final")
    finish(store, parts[1])
    fail(store, parts[0], again=False)
    assert status(store, then) == BLOCKED
    store.jobs.cancel(parts[2])
    assert status(store, then) == READY


def test_a_crew_that_settles_a_failure_lets_the_callback_go_on(true_store: Store) -> None:

    store = true_store
    (part,), then = a_batch(store, 1, "final")
    crew = Crew(store)
    (held,) = crew.exchange().claims
    (following,) = crew.exchange([(part, held.token, Failed("no", again=False))]).claims
    assert following.job_id == then
    crew.exchange([(then, following.token, Done())], room=0)


def test_a_job_after_one_that_failed_is_ready_at_once_where_any_end_will_do(true_store: Store) -> None:
    store = true_store
    needed = add(store)
    fail(store, needed, again=False)
    assert status(store, add(store, after=[needed], until="final")) == READY
    assert status(store, add(store, after=[needed])) == BLOCKED


def test_a_needed_one_that_is_tried_again_before_the_others_end_is_waited_for_again(true_store: Store) -> None:
    store = true_store
    (one, two), then = a_batch(store, 2, "final")
    fail(store, one, again=False)
    store.jobs.retry(one)
    finish(store, two)
    assert status(store, then) == BLOCKED
    finish(store, one)
    assert status(store, then) == READY


def test_reconcile_lets_go_on_what_was_left_blocked(store: Store) -> None:
    (part,), then = a_batch(store, 1, "final")
    rows(store, f"UPDATE job SET status = 'failed', finished_at = 1 WHERE id = {part}")
    store.reconcile()
    assert status(store, then) == READY


def test_an_unknown_until_is_refused(store: Store) -> None:
    with pytest.raises(BadInput, match="one of done, final"):
        add(store, until="over")


# results


def test_results_are_those_of_what_it_waited_for_by_id(store: Store) -> None:
    parts, then = a_batch(store, 3, "final")
    store.claims.settle(claim(store, parts[1]), Done('{"n": 1}'))
    fail(store, parts[0], "broken", again=False)
    store.jobs.cancel(parts[2])
    found = store.jobs.results(then)
    assert [(each.id, each.title, each.status, each.result) for each in found] == [
        (parts[0], "part 0", "failed", None),
        (parts[1], "part 1", "done", {"n": 1}),
        (parts[2], "part 2", "cancelled", None),
    ]
    assert "broken" in (found[0].error or "") and store.jobs.results(parts[0]) == []


# debounce


def test_added_again_while_it_waits_it_has_the_new_payload_and_waits_on(true_store: Store, clock: FakeClock) -> None:
    store = true_store
    first = add(store, "old", key="k", payload=1, debounce="5s")
    clock.advance(3 * SECOND)
    assert add(store, "new", key="k", payload=2, debounce=5 * SECOND) == first
    job = store.jobs.get(first)
    assert (job.title, job.payload, job.status, job.due_at) == ("new", 2, SCHEDULED, store.now() + 5 * SECOND)
    clock.advance(4 * SECOND)
    assert store.jobs.ready() == []
    clock.advance(SECOND)
    assert [job.id for job in store.jobs.ready()] == [first]


def test_one_that_is_ready_waits_again(true_store: Store) -> None:
    store = true_store
    plain = add(store, key="k")
    assert status(store, plain) == READY
    assert add(store, key="k", debounce="5s") == plain and status(store, plain) == SCHEDULED


def test_it_is_put_off_at_most_so_long_in_all(true_store: Store, clock: FakeClock) -> None:
    store = true_store
    first = add(store, key="k", debounce="5s", at_most="8s")
    clock.advance(4 * SECOND)
    add(store, key="k", debounce="5s", at_most="8s")
    clock.advance(4 * SECOND)
    assert [job.id for job in store.jobs.ready()] == [first]
    add(store, key="k", payload="last", debounce="5s", at_most="8s")
    assert (status(store, first), store.jobs.get(first).payload) == (READY, "last")


def test_one_that_runs_or_is_over_keeps_its_payload_and_the_key_goes_to_a_new_job(true_store: Store) -> None:
    store = true_store
    first = add(store, key="k", payload=1)
    held = claim(store, first)
    second = add(store, key="k", payload=2, debounce="5s")
    assert second != first and (status(store, first), status(store, second)) == (ACTIVE, SCHEDULED)
    assert (store.jobs.get(first).payload, store.jobs.get(first).key, store.jobs.get(second).key) == (1, None, "k")
    store.claims.settle(held, Done())
    store.jobs.done(second, force=True)
    third = add(store, key="k", debounce="5s")
    assert third not in (first, second) and status(store, second) == DONE


def test_a_burst_is_one_job_with_the_last_payload(true_store: Store) -> None:
    store = true_store
    ids = store.jobs.add_many([NewJob("x", key="k", payload=n, debounce="1s") for n in range(20)])
    assert len(set(ids)) == 1 and store.jobs.get(ids[0]).payload == 19
    assert store.queues.counts()["default"]["scheduled"] == 1


def test_room_under_a_limit_that_a_debounced_job_leaves_goes_to_the_next(true_store: Store) -> None:
    store = true_store
    add(store)
    store.queues.set("default", per_key=1)
    first, second = add(store, key="k", limit_key="disk"), add(store, limit_key="disk")
    assert (status(store, first), status(store, second)) == (READY, BLOCKED)
    add(store, key="k", debounce="5s")
    assert (status(store, first), status(store, second)) == (SCHEDULED, READY)


def test_a_full_queue_takes_what_only_waits_on(true_store: Store) -> None:
    store = true_store
    first = add(store, key="k", debounce="5s")
    store.queues.set("default", max_depth=1)
    assert add(store, key="k", debounce="5s") == first
    with pytest.raises(QueueFull):
        add(store, key="other", debounce="5s")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"debounce": "5s"}, "needs a key"),
        ({"key": "k", "at_most": "5s"}, "goes with debounce"),
        ({"key": "k", "debounce": "5s", "at": 1}, "leave out at, after and follows"),
        ({"key": "k", "debounce": "5s", "after": [1]}, "leave out at, after and follows"),
        ({"key": "k", "debounce": "soon"}, "is not a duration"),
        ({"key": "k", "debounce": 0}, "from 1 to"),
        ({"key": "k", "debounce": "5s", "at_most": "0s"}, "from 1 to"),
    ],
)
def test_a_debounce_that_makes_no_sense_is_refused(store: Store, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        add(store, **wrong)


@pytest.mark.postgres
def test_a_claim_and_a_debounce_at_once_lose_no_payload(tmp_path: Path, clock: FakeClock) -> None:
    with make_store("postgres", tmp_path, clock) as store:
        first = add(store, key="k", payload=1)
        again = NewJob("x", key="k", payload=2, debounce="5s")
        claims = in_flight(store, lambda own: own.claims.claim(first))
        with claims as claiming, beside(store, lambda own: own.jobs.add(again)) as adding:
            claiming.go_on()
            added = adding.answer()
        assert added.id != first and added.payload == 2
        adds = in_flight(store, lambda own: own.jobs.add(again.replace(payload=3)))
        with adds as one, beside(store, lambda own: own.jobs.add(again.replace(payload=4))) as other:
            assert one.go_on().id == added.id
            assert other.answer().id == added.id
        assert store.jobs.get(added.id).payload == 4


# unique


def test_a_key_that_is_unique_while_its_job_waits_goes_to_the_next_once_it_is_claimed(true_store: Store) -> None:
    store = true_store
    first = add(store, key="ann", unique="waiting")
    assert add(store, key="ann", unique="waiting") == first
    held = claim(store, first)
    second = add(store, key="ann", unique="waiting")
    assert second != first and add(store, key="ann", unique="waiting") == second
    assert (status(store, first), status(store, second)) == (ACTIVE, READY)
    store.claims.settle(held, Done())


def test_a_key_that_is_unique_while_its_job_is_active_goes_to_the_next_once_it_is_over(true_store: Store) -> None:
    store = true_store
    first = add(store, key="ann", unique="active", max_attempts=1)
    held = claim(store, first)
    assert add(store, key="ann", unique="active") == first
    store.claims.settle(held, Failed("no"))
    second = add(store, key="ann", unique="active")
    assert second != first and (store.jobs.get(first).key, store.jobs.get(second).key) == (None, "ann")
    store.jobs.cancel(second)
    third = add(store, key="ann", unique="active")
    finish(store, third)
    assert len({first, second, third, add(store, key="ann", unique="active")}) == 4


def test_a_job_that_is_blocked_or_not_yet_due_waits_too(true_store: Store) -> None:
    store = true_store
    needed = add(store)
    blocked = add(store, key="a", unique="waiting", after=[needed])
    late = add(store, key="b", unique="waiting", at=store.database.wall() + MINUTE)
    assert add(store, key="a", unique="waiting") == blocked and add(store, key="b", unique="waiting") == late


def test_a_plain_key_still_finds_the_job_that_is_over(true_store: Store) -> None:
    store = true_store
    first = add(store, key="ann", unique="active")
    finish(store, first)
    assert add(store, key="ann") == first


def test_of_unique_jobs_in_one_call_the_first_is_added(true_store: Store) -> None:
    ids = true_store.jobs.add_many([NewJob("x", key="ann", unique="active")] * 3)
    assert len(set(ids)) == 1 and true_store.queues.counts()["default"]["ready"] == 1


def test_a_full_queue_refuses_the_job_that_a_key_admits_and_takes_the_one_it_meets(true_store: Store) -> None:
    store = true_store
    first = add(store, key="ann", unique="waiting")
    store.queues.set("default", max_depth=1)
    assert add(store, key="ann", unique="waiting") == first
    claim(store, first)
    add(store)
    with pytest.raises(QueueFull):
        add(store, key="ann", unique="waiting")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"unique": "active"}, "needs a key"),
        ({"key": "k", "unique": "done"}, "must be one of waiting, active"),
        ({"key": "k", "unique": "waiting", "debounce": "5s"}, "leave out unique"),
    ],
)
def test_a_unique_that_makes_no_sense_is_refused(store: Store, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        add(store, **wrong)


@pytest.mark.postgres
@pytest.mark.parametrize("unique", ["waiting", "active"])
def test_two_who_add_a_unique_job_at_once_add_one(tmp_path: Path, clock: FakeClock, unique: str) -> None:
    with make_store("postgres", tmp_path, clock) as store:
        first = add(store, key="ann")
        finish(store, first)
        new = NewJob("x", key="ann", unique=unique)
        adds = in_flight(store, lambda own: own.jobs.add(new))
        with adds as one, beside(store, lambda own: own.jobs.add(new)) as other:
            added = one.go_on()
            assert added.id != first and other.answer().id == added.id
        assert store.queues.counts()["default"]["ready"] == 1


# snooze by hand


def test_a_held_job_is_put_off_without_its_token_and_spends_no_attempt(true_store: Store, clock: FakeClock) -> None:
    store = true_store
    job = add(store)
    claim(store, job)
    found = store.jobs.snooze(job, 10 * MINUTE, "asleep")
    assert (found.status, found.attempts, found.note) == (SCHEDULED, 0, "asleep")
    assert found.due_at == store.now() + 10 * MINUTE
    clock.advance(10 * MINUTE)
    assert [each.id for each in store.jobs.ready()] == [job]


def test_what_nobody_holds_or_what_is_watched_is_not_put_off_without_a_token(store: Store) -> None:
    job = add(store)
    with pytest.raises(Conflict, match=r"nobody holds it: claim it first$"):
        store.jobs.snooze(job, SECOND)
    Crew(store).exchange()
    with pytest.raises(Stale, match="which is watched"):
        store.jobs.snooze(job, SECOND)
