"""Back-pressure: depth, rate, how many at once, how many per key, and the breaker."""

from __future__ import annotations

from collections import Counter
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from rota.core.claim import Done, Snoozed
from rota.core.errors import BadInput, NothingReady, QueueFull, Refused
from rota.core.job import ACTIVE, BLOCKED, READY
from rota.core.times import HOUR, MILLISECOND, MINUTE, SECOND
from rota.store import queues
from rota.store.claims.exchange import Idle, Report
from rota.store.jobs.enqueue import NewJob
from rota.store.sqlite.database import SqliteDatabase
from tests.support.eventually import eventually
from tests.support.stores import STORES, again, make_store
from tests.support.work import Crew, add, add_many, claim, fail, finish, status, told

if TYPE_CHECKING:
    from pathlib import Path

    from rota.store.store import Store
    from tests.support.clock import FakeClock


def states(store: Store, ids: list[int]) -> list[str]:
    return [status(store, id) for id in ids]


def test_a_full_queue_refuses_and_nothing_of_the_batch_is_added(store: Store) -> None:
    store.queues.set("default", max_depth=3)
    ids = add_many(store, 2)
    before = told(store)
    with pytest.raises(QueueFull, match="queue default is full: 2 jobs wait, at most 3 may"):
        add_many(store, 2)
    assert told(store) == before
    add(store)
    with pytest.raises(QueueFull):
        add(store)
    add(store, queue="another")
    claim(store, ids[0])
    add(store)


def test_waiting_jobs_of_every_kind_count_towards_the_depth(store: Store, clock: FakeClock) -> None:
    store.queues.set("default", max_depth=2)
    add(store, at=clock.wall() + HOUR)
    add(store, after=[1])
    with pytest.raises(QueueFull):
        add(store)


def test_a_known_key_is_no_addition_even_to_a_full_queue(store: Store) -> None:
    store.queues.set("default", max_depth=1)
    job = add(store, key="k")
    assert add(store, key="k") == job


@pytest.mark.parametrize("kind", STORES)
def test_who_waits_for_a_full_queue_gets_in_when_there_is_room(kind: str, tmp_path: Path) -> None:
    with make_store(kind, tmp_path) as store:
        store.queues.set("default", max_depth=1)
        first, added = add(store), list[int]()

        def wait_and_add() -> None:
            with again(store) as other:
                added.append(other.jobs.add(NewJob("second"), wait=60 * SECOND).id)

        waiting = Thread(target=wait_and_add)
        waiting.start()
        assert added == []
        finish(store, first)
        waiting.join(30)
        assert added and status(store, added[0]) == READY


@pytest.mark.parametrize("kind", STORES)
def test_who_waits_too_long_for_a_full_queue_is_refused(kind: str, tmp_path: Path) -> None:
    with make_store(kind, tmp_path) as store:
        store.queues.set("default", max_depth=1)
        add(store)
        with pytest.raises(QueueFull):
            store.jobs.add(NewJob("second"), wait=SECOND // 20)


def test_only_so_many_run_at_once_by_hand(store: Store) -> None:
    store.queues.set("default", concurrency=2)
    ids = add_many(store, 3)
    held = [claim(store, ids[0]), store.claims.take()]
    with pytest.raises(Refused, match="queue default is at its 2 at once"):
        claim(store, ids[2])
    with pytest.raises(NothingReady):
        store.claims.take()
    store.claims.settle(held[0], Done())
    claim(store, ids[2])


def test_only_so_many_run_at_once_for_orchestrators_too(store: Store) -> None:
    store.queues.set("default", concurrency=3)
    ids = add_many(store, 9)
    claim(store, ids[0])
    one, other = Crew(store, 2), Crew(store, 2)
    first = one.exchange(room=4).claims
    assert len(first) == 2
    assert other.exchange(room=4).claims == []
    answer = one.exchange([(first[0].job_id, first[0].token, Done())], room=4)
    assert len(answer.claims) == 1, "what this very exchange settled makes room"


@pytest.mark.parametrize("rate", [10, 50, 200, 1000])
def test_an_orchestrator_that_comes_when_the_exchange_says_gets_the_whole_rate(
    store: Store, clock: FakeClock, rate: int
) -> None:
    """Two workers whose jobs end at once, and an orchestrator that is 20 ms late each time."""
    store.queues.set("default", rate=f"{rate}/s")
    add_many(store, 3 * rate)
    crew, done, count, began = Crew(store, 2), list[Any](), 0, clock.now()
    while clock.now() - began < 2 * SECOND:
        answer = crew.exchange(done, room=100)
        done = [(each.job_id, each.token, Done()) for each in answer.claims]
        count += len(done)
        assert answer.rate_free_in, "the rate is in the way, and its next moment is to come"
        clock.advance(answer.rate_free_in + 20 * MILLISECOND)
    assert 2 * rate <= count <= 2.1 * rate + 1 + rate * (clock.now() - began - 2 * SECOND) / SECOND


def test_an_exchange_names_no_moment_of_a_rate_that_holds_nothing_back(store: Store, clock: FakeClock) -> None:
    store.queues.set("default", rate="1000/s", concurrency=2)
    crew = Crew(store, 2)
    assert crew.exchange(room=500).rate_free_in is None, "nothing is ready"
    add_many(store, 3)
    assert len(crew.exchange().claims) == 2
    clock.advance(SECOND)
    assert crew.exchange().rate_free_in is None, "the concurrency is in the way"


def test_a_rate_lets_windows_be_handed_out(store: Store, clock: FakeClock) -> None:
    store.queues.set("default", rate="100/s")
    add_many(store, 20)
    crew = Crew(store)
    assert len(crew.exchange(room=4).claims) == 4
    clock.advance(100 * MILLISECOND)
    busy = Idle(crew.workers[0], "default", 4, held=4)
    assert len(store.orchestrators.exchange(crew.id, crew.number, Report([], [busy])).claims) == 4


def test_a_moment_of_a_rate_that_has_passed_counts_as_now_for_whoever_can_claim(store: Store, clock: FakeClock) -> None:
    store.queues.set("default", rate="100/s")
    assert store.next_due() is None
    add_many(store, 20)
    while store.jobs.ready():
        store.claims.take()
    assert 0 < (store.next_due() or 0) <= 10 * MILLISECOND
    clock.advance(11 * MILLISECOND)
    assert store.next_due() == 0 == store.next_due("default")
    assert store.next_due("another") != 0, "nobody who serves another queue can claim it"
    store.queues.set("default", concurrency=1)
    assert store.next_due() != 0, "the concurrency is in the way"


def test_a_rate_lets_one_start_per_share_of_its_period(store: Store, clock: FakeClock) -> None:
    store.queues.set("default", rate="10/m")
    ids = add_many(store, 10)
    claim(store, ids[0])
    with pytest.raises(Refused, match="queue default is at its rate of 10/m"):
        claim(store, ids[1])
    clock.advance(6 * SECOND - 1)
    with pytest.raises(NothingReady):
        store.claims.take()
    clock.advance(1)
    store.claims.take()
    crew = Crew(store)
    clock.advance(6 * SECOND)
    assert len(crew.exchange(room=5).claims) == 1
    assert crew.exchange(room=5).claims == []


def test_ready_lists_nothing_of_a_queue_at_its_limit(store: Store, clock: FakeClock) -> None:
    store.queues.set("default", concurrency=1)
    ids = add_many(store, 2)
    held = claim(store, ids[0])
    assert store.jobs.ready() == [], "these are the jobs that can be claimed now"
    store.claims.settle(held, Done())
    assert [job.id for job in store.jobs.ready()] == [ids[1]]


def test_a_key_runs_only_so_often_at_once(store: Store) -> None:
    store.queues.set("default", per_key=2)
    ids = add_many(store, 4, limit_key="host-a")
    other = add(store, limit_key="host-b")
    assert states(store, ids) == [READY, READY, BLOCKED, BLOCKED] and status(store, other) == READY
    held = claim(store, ids[0])
    assert states(store, ids) == [ACTIVE, READY, BLOCKED, BLOCKED]
    store.claims.settle(held, Done())
    assert states(store, ids) == ["done", READY, READY, BLOCKED]
    store.jobs.cancel(ids[1])
    assert status(store, ids[3]) == READY


def test_the_next_of_a_key_is_the_best_that_waits(store: Store) -> None:
    store.queues.set("default", per_key=1)
    first = add(store, limit_key="k")
    low, high = add(store, limit_key="k"), add(store, limit_key="k", priority=5)
    finish(store, first)
    assert states(store, [low, high]) == [BLOCKED, READY]


def test_a_key_makes_room_when_its_job_only_waits_for_a_retry(store: Store, clock: FakeClock) -> None:
    store.queues.set("default", per_key=1)
    first, second = add_many(store, 2, limit_key="k")
    fail(store, first)
    assert status(store, second) == READY
    clock.advance(MINUTE)
    store.tick()
    assert status(store, first) == BLOCKED
    assert "waits for room: queue default lets 1 of key k run at once" in store.jobs.why(first)
    finish(store, second)
    assert status(store, first) == READY


def test_a_released_job_keeps_its_place_under_the_limit(store: Store) -> None:
    store.queues.set("default", per_key=1)
    first, second = add_many(store, 2, limit_key="k")
    store.claims.release(claim(store, first))
    assert states(store, [first, second]) == [READY, BLOCKED]


def test_an_exchange_admits_the_next_of_a_key(store: Store) -> None:
    store.queues.set("default", per_key=1)
    first, second = add_many(store, 2, limit_key="k")
    crew = Crew(store)
    (handout,) = crew.exchange(room=5).claims
    answer = crew.exchange([(first, handout.token, Done())], room=5)
    assert [each.job_id for each in answer.claims] == [second]


def test_a_changed_limit_looks_at_each_key_once(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many batches of keys there are: otherwise the work would grow with the square of the keys."""
    monkeypatch.setattr(queues, "_BATCH", 3)
    ready_scans: Counter[tuple[str, str]] = Counter()

    def count(_: object, text: str, values: object) -> bool:
        if isinstance(values, dict) and "limit_key" in values:
            ready_scans[text, values["limit_key"]] += 1
        return True

    with make_store("sqlite", tmp_path, clock) as store:
        assert isinstance(store.database, SqliteDatabase)
        store.queues.set("default", per_key=1)
        for n in range(10):
            add_many(store, 4, limit_key=f"key-{n}")
        store.database._connection.exec_trace = count
        store.queues.set("default", per_key=2)
    assert {key for _, key in ready_scans} == {f"key-{n}" for n in range(10)}
    assert max(ready_scans.values()) == 2  # is there room for one, and then for another?


def test_a_changed_limit_per_key_lets_in_and_holds_back(store: Store) -> None:
    ids = add_many(store, 6, limit_key="k")
    assert states(store, ids) == [READY] * 6
    claim(store, ids[0])
    store.queues.set("default", per_key=2)
    assert states(store, ids) == [ACTIVE, READY, BLOCKED, BLOCKED, BLOCKED, BLOCKED]
    store.queues.set("default", per_key=4)
    assert states(store, ids) == [ACTIVE, READY, READY, READY, BLOCKED, BLOCKED]
    store.queues.set("default", per_key=None)
    assert states(store, ids) == [ACTIVE] + [READY] * 5


def test_dependents_over_their_keys_limit_wait_for_room_when_let_go(store: Store) -> None:
    store.queues.set("default", per_key=1)
    needed = add(store)
    ids = add_many(store, 3, after=[needed], limit_key="k")
    finish(store, needed)
    assert states(store, ids) == [READY, BLOCKED, BLOCKED]


def test_the_breaker_pauses_a_queue_after_failures_in_a_row(store: Store) -> None:
    store.queues.set("default", breaker=3)
    ids = add_many(store, 9)
    for id in ids[:2]:
        fail(store, id)
    finish(store, ids[2])
    for id in ids[3:5]:
        fail(store, id)
    assert store.queues.get("default").paused_at is None, "a success in between starts the count anew"
    fail(store, ids[5], "no route to host")
    queue = store.queues.get("default")
    assert queue.paused_by == "breaker" and "3 failures in a row; the last: no route to host" in str(queue.pause_reason)
    assert "is paused by its breaker" in store.jobs.why(ids[6])
    with pytest.raises(Refused, match="queue default is paused"):
        claim(store, ids[6])
    assert store.queues.resume("default") == ["default"]
    fail(store, ids[6])
    assert store.queues.get("default").paused_at is None, "resuming starts the count anew"


def test_limits_are_set_one_by_one_and_removed_with_none(store: Store) -> None:
    store.queues.set("tag", max_depth=5, rate="1/s")
    store.queues.set("tag", concurrency=2, fence="end")
    queue = store.queues.set("tag", rate=None)
    assert (queue.max_depth, queue.rate, queue.concurrency, queue.fence) == (5, None, 2, "end")


@pytest.mark.parametrize(
    "limits",
    [
        {"depth": 1},
        {"max_depth": 0},
        {"rate": "10"},
        {"concurrency": -1},
        {"per_key": "2"},
        {"breaker": 1.5},
        {"fence": "x"},
    ],
    ids=repr,
)
def test_a_limit_that_makes_no_sense_is_refused_and_changes_nothing(store: Store, limits: dict[str, object]) -> None:
    before = told(store)
    with pytest.raises(BadInput):
        store.queues.set("tag", **limits)
    assert told(store) == before and store.queues.list() == []


def test_the_bell_tells_those_who_wait_for_room(store: Store) -> None:
    listener = store.database.listen()
    store.queues.set("default", concurrency=5)
    assert eventually(lambda: listener.wait(0))
    listener.close()


def test_of_jobs_that_fall_due_at_one_instant_the_oldest_gets_the_room_under_a_limit(
    store: Store, clock: FakeClock
) -> None:
    """However the database happens to find them: PostgreSQL does in the order in which their rows were written."""
    first, second = (add(store, limit_key="k") for _ in range(2))
    held = {id: claim(store, id) for id in (first, second)}
    for id in (second, first):
        store.claims.settle(held[id], Snoozed(5 * SECOND))
    store.queues.set("default", per_key=1)
    clock.advance(5 * SECOND)
    store.tick()
    assert states(store, [first, second]) == [READY, BLOCKED]
