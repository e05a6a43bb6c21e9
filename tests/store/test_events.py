"""The log: one row per transaction, whose replay is the store's state; and the kept counters are the true ones."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest

from rota.api.stream.hub import _missed
from rota.core.claim import Done, Failed
from rota.core.errors import BadInput
from rota.core.event import JobMoved, WorkerChanged, to_stored
from rota.core.times import HOUR, MINUTE, SECOND
from rota.live.feed import Feed
from tests.support.eventually import eventually
from tests.support.stores import STORES, again, make_store, rows
from tests.support.work import Crew, add, add_many, claim, fail, finish, last_event, register

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rota.store.store import Store
    from tests.support.clock import FakeClock


def replayed(store: Store) -> dict[int, str]:
    """The state of every job as the facts tell it, each move starting where the last one ended."""
    states: dict[int, str] = {}
    for event in store.events.after("0", 1_000_000):
        for move in event.of(JobMoved):
            for id in move.ids:
                assert states.pop(id, None) == move.old, f"job {id} in event {event.cursor}"
                if move.new is not None:
                    states[id] = move.new
    return states


def busy_day(store: Store, clock: FakeClock) -> None:
    """A bit of everything."""
    crew = Crew(store, 2)
    store.queues.set("default", per_key=2, breaker=5)
    first = add_many(store, 6)
    add_many(store, 4, limit_key="k")
    add_many(store, 3, after=first[:2], at=clock.wall() + HOUR)
    claims = crew.exchange(room=2).claims
    crew.exchange([(claims[0].job_id, claims[0].token, Done()), (claims[1].job_id, claims[1].token, Failed("x"))])
    worker = register(store)
    claim(store, store.claims.take(worker).job_id + 1, worker, MINUTE)
    clock.advance(2 * MINUTE)
    store.reconcile()
    for job in store.jobs.ready(limit=3):
        finish(store, job.id)
    store.jobs.cancel(store.jobs.ready()[0].id)
    over = store.jobs.list("done")[0].id
    store.jobs.retry(over)
    store.jobs.block(over, first[-1])
    store.queues.set("default", per_key=1)
    store.orchestrators.leave(crew.id)
    clock.advance(2 * HOUR)
    store.reconcile()


def test_a_replay_of_all_facts_is_the_state_of_all_jobs(store: Store, clock: FakeClock) -> None:
    busy_day(store, clock)
    assert replayed(store) == dict(rows(store, "SELECT id, status FROM job"))


def test_the_kept_counters_are_the_true_counts(store: Store, clock: FakeClock) -> None:
    busy_day(store, clock)
    kept = {(queue, status): n for queue, status, n in store.database.execute("tally.all", {}) if n}
    true = {(queue, status): n for queue, status, n in store.database.execute("tally.true", {})}
    assert kept == true
    (listed,) = store.queues.list()
    assert {state: n for state, n in listed.counts.items() if n} == {state: n for (_, state), n in true.items()}


CHANGES: dict[str, Callable[[Store, int], object]] = {
    "add": lambda store, job: add_many(store, 50),
    "claim": claim,
    "take": lambda store, job: store.claims.take(),
    "cancel": lambda store, job: store.jobs.cancel(job),
    "force": lambda store, job: store.jobs.done(job, force=True),
    "block": lambda store, job: store.jobs.block(job, job + 1),
    "pause": lambda store, job: store.queues.pause("default"),
    "limits": lambda store, job: store.queues.set("default", concurrency=1),
    "register": lambda store, job: register(store),
    "join": lambda store, job: store.orchestrators.join(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_appends_exactly_one_event(store: Store, change: Callable[[Store, int], object]) -> None:
    job, _ = add_many(store, 2)
    before = last_event(store)
    change(store, job)
    assert len(store.events.after(before)) == 1


def test_an_event_says_when_who_and_what(store: Store, clock: FakeClock) -> None:
    job = add(store)
    clock.advance(5)
    before = last_event(store)
    held = claim(store, job, register(store))
    registered, claimed = store.events.after(before)
    assert (claimed.at, claimed.actor) == (clock.now(), "tester@here")
    assert claimed.facts == [
        JobMoved("claim", "default", "ready", "active", [job], {"worker": held.worker_id, "token": held.token})
    ]
    assert len(registered.of(WorkerChanged, "register")) == 1


def test_cursors_only_advance_and_reading_on_misses_nothing_and_repeats_nothing(store: Store) -> None:
    for _ in range(25):
        add(store)
    every = [event.facts for event in store.events.after("0", 1000)]
    paged, cursor, cursors = [], "0", set()
    while page := store.events.after(cursor, 7):
        cursor = page[-1].cursor
        paged += [event.facts for event in page]
        cursors |= {event.cursor for event in page}
    assert paged == every and len(cursors) == len(every) == 25
    assert store.events.after(last_event(store)) == []


def test_from_any_event_on_the_rest_is_read_whichever_way_that_event_was_met(store: Store) -> None:
    jobs = [add(store) for _ in range(6)]
    for met in (store.events.after("0"), store.events.newest(), store.events.newest(store.events.newest()[5].cursor)):
        for place, event in enumerate(met):
            rest = [each.of(JobMoved)[-1].ids for each in store.events.after(event.cursor, 3)]
            assert rest == [[job] for job in jobs[place + 1 : place + 4]]


def test_just_before_an_event_it_is_the_next_whichever_way_it_was_met(store: Store) -> None:
    for _ in range(5):
        add(store)
    second = store.events.after("0")[1].cursor
    for event in (*store.events.after("0"), *store.events.after(second), *store.events.newest()):
        (next_one,) = store.events.after(event.just_before, 1)
        assert (next_one.number, next_one.facts) == (event.number, event.facts)


def test_a_reader_that_comes_back_is_told_what_others_were_and_no_more(store: Store) -> None:
    add_many(store, 3)
    told = store.events.last()
    (last,) = add_many(store, 1)
    for until, expected in ((told, [1, 2, 3]), (store.events.last(), [1, 2, 3, last])):
        missed = _missed(store, Feed(store, ["queue:jobs"], "0"), until)
        assert missed is not None and [change.body["id"] for change in missed] == expected
    first = Feed(store, ["queue:jobs"], "0").moves()[0].id
    missed = _missed(store, Feed(store, ["queue:jobs"], first), told)
    assert missed is not None and [change.body["id"] for change in missed] == [2, 3], "from the middle of an event on"


def test_a_cursor_is_never_used_again_even_when_the_log_was_pruned(store: Store, clock: FakeClock) -> None:
    add(store)
    last = last_event(store)
    clock.advance(HOUR)
    assert store.history.prune(older=SECOND).events == 1
    job = add(store)
    (event,) = store.events.after(last)
    assert event.of(JobMoved)[0].ids == [job] and event.cursor != last


@pytest.mark.parametrize("cursor", ["", "-1", "x", "1.5", "٣"])
def test_what_is_not_a_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(BadInput, match="is not an event cursor"):
        store.events.after(cursor)


@pytest.mark.parametrize("kind", STORES)
def test_following_hears_what_others_do(kind: str, tmp_path: Path) -> None:
    with make_store(kind, tmp_path) as store:
        heard: list[str] = []

        def listen() -> None:
            with again(store) as other:
                for event in other.events.follow("0"):
                    heard.extend(to_stored(fact)[1] for fact in event.facts)
                    if "cancel" in heard:
                        return

        listening = Thread(target=listen)
        listening.start()
        job = add(store)
        eventually(lambda: "add" in heard)
        fail(store, job)
        store.jobs.cancel(job)
        listening.join(30)
        assert heard == ["make", "add", "register", "claim", "fail", "cancel"]
