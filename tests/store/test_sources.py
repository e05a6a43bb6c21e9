"""Sources in the store: one filler at a time, each key one job, nothing left after success, and nothing that spins."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from rota.core import source as core
from rota.core.claim import Done, Failed, Snoozed
from rota.core.errors import BadInput, NotFound, NothingReady, Refused, Stale
from rota.core.job import NewJob
from rota.core.source import Declared
from rota.core.times import HOUR, SECOND
from rota.core.worker import Dead
from rota.store.sources import Found
from tests.support.stores import rows
from tests.support.work import Crew, add, claim, status

if TYPE_CHECKING:
    from rota.core.frames.assignment import Assignment
    from rota.core.source import Source
    from rota.store.sources import Filled
    from rota.store.store import Store
    from tests.support.clock import FakeClock

FILES = Declared("files", "tag", "tag", 30 * SECOND, 2, 5, 3)
LIKE = NewJob("tag", "tag", "tag", priority=4, max_attempts=2)


class Yard:
    """A crew of one worker, and a source that yields what the test says."""

    def __init__(self, store: Store, declared: Declared = FILES) -> None:
        self.store = store
        self.declared = declared
        store.sources.declare([declared])
        self.crew = Crew(store, queue=declared.queue)

    def filler(self) -> Assignment:
        """Claim the filler."""
        (claim,) = self.crew.exchange().claims
        assert claim.kind == "rota:source:files"
        return claim

    def fill(self, *keys: str, exhausted: bool = True) -> Filled:
        """One pass, settled as its worker does."""
        claim = self.filler()
        filled = self.add(claim, *keys, exhausted=exhausted)
        self.crew.exchange([(claim.job_id, claim.token, Snoozed(self.declared.every))], room=0)
        return filled

    def add(self, claim: Assignment, *keys: str, exhausted: bool = True) -> Filled:
        found = [Found(key, f'"{key}"') for key in keys]
        return self.store.sources.fill("files", (claim.job_id, claim.token), found, LIKE, exhausted)

    def work(self, room: int = 10) -> list[str]:
        """Run what is ready; the keys."""
        claims = self.crew.exchange(room=room).claims
        self.crew.exchange([(claim.job_id, claim.token, Done("1")) for claim in claims], room=0)
        return [claim.key or "" for claim in claims]

    @property
    def source(self) -> Source:
        return self.store.sources.get("files")


@pytest.fixture
def yard(store: Store) -> Yard:
    return Yard(store)


def test_a_declared_source_has_one_filler_which_is_ready_at_once(store: Store) -> None:
    store.sources.declare([FILES])
    store.sources.declare([FILES])
    (found,) = store.sources.list()
    assert (found.source.declared, found.filler_status) == (FILES, "ready")
    assert rows(store, "SELECT kind, queue, source FROM job") == [("rota:source:files", "~tag", "files")]


def test_declaring_the_same_again_writes_nothing(store: Store) -> None:
    store.sources.declare([FILES])
    before = store.events.last()
    store.sources.declare([FILES])
    assert store.events.last() == before


def test_a_source_declared_in_another_way_keeps_its_counters_and_its_filler(yard: Yard) -> None:
    yard.fill("a")
    yard.work()
    yard.store.sources.declare([FILES.replace(low=7)])
    assert (yard.source.low, yard.source.success_count) == (7, 1)
    assert len(yard.store.jobs.list(internal=True)) == 1


def test_a_source_that_moves_to_another_queue_takes_its_filler_along(yard: Yard) -> None:
    yard.store.sources.declare([FILES.replace(queue="other")])
    (filler,) = yard.store.jobs.list(internal=True)
    assert (filler.id, filler.queue) == (yard.source.filler, "~other")
    assert yard.store.queues.get("other").name == "other"


def test_one_filler_is_handed_out_at_a_time(store: Store) -> None:
    store.sources.declare([FILES])
    one, other = Crew(store, queue="tag"), Crew(store, queue="tag")
    assert len(one.exchange().claims) == 1
    assert other.exchange().claims == []


def test_a_pass_makes_a_job_of_each_key_as_its_task_has_them(yard: Yard) -> None:
    assert yard.fill("a", "b").added == 2
    newest, _ = yard.store.jobs.list()
    assert (newest.key, newest.kind, newest.queue, newest.payload) == ("b", "tag", "tag", "b")
    assert (newest.priority, newest.max_attempts, newest.source, newest.title) == (4, 2, "files", "tag b")


def test_a_pass_adds_at_most_a_batch(yard: Yard) -> None:
    assert yard.fill(*"abcdefgh").added == FILES.batch
    assert yard.source.more == 1


def test_a_key_is_one_job_while_it_waits_or_runs(yard: Yard, clock: FakeClock) -> None:
    yard.fill("a", "b")
    (held,) = yard.crew.exchange(room=1).claims
    clock.advance(FILES.every)
    assert yard.fill("a", "b", "c").added == 1
    assert held.key == "a"


def test_the_keys_of_a_source_are_its_own(store: Store) -> None:
    store.sources.declare([FILES])
    store.jobs.add(NewJob("by hand", "tag", key="a"))
    other = FILES.replace(name="others")
    store.sources.declare([other])
    fillers = {each.kind: each for each in Crew(store, workers=2, queue="tag").exchange(room=3).claims}
    like = [Found("a", None)]
    for name in ("files", "others"):
        each = fillers[f"rota:source:{name}"]
        assert store.sources.fill(name, (each.job_id, each.token), like, LIKE, True).added == 1


def test_success_leaves_counters_and_an_event_and_no_row(yard: Yard) -> None:
    yard.fill("a", "b")
    assert yard.work() == ["a", "b"]
    assert yard.store.jobs.list() == []
    assert rows(yard.store, "SELECT count(*) FROM run") == [(0,)]
    source = yard.source
    assert (source.success_count, source.error_count, source.last_success_worker) == (2, 0, yard.crew.workers[0])
    assert source.last_success_at == yard.store.now()
    assert rows(yard.store, 'SELECT count(*) FROM event WHERE facts LIKE \'%"finish"%"files"%\'') == [(1,)]
    assert rows(yard.store, "SELECT queue, sum(n) FROM tally WHERE n <> 0 GROUP BY queue") == [("~tag", 1)]
    assert yard.store.workers.get(yard.crew.workers[0]).success_count == 2


def test_a_key_that_succeeded_while_a_pass_was_reading_is_not_added_again(yard: Yard, clock: FakeClock) -> None:
    yard.fill("a")
    (held,) = yard.crew.exchange().claims
    clock.advance(FILES.every)
    reading = yard.filler()
    clock.advance(SECOND)
    yard.crew.exchange([(held.job_id, held.token, Done())], room=0)
    clock.advance(SECOND)
    assert yard.add(reading, "a", "b").added == 1
    assert [job.key for job in yard.store.jobs.list()] == ["b"]


def test_a_key_that_comes_again_later_is_a_job_again(yard: Yard, clock: FakeClock) -> None:
    yard.fill("a")
    yard.work()
    clock.advance(FILES.every)
    assert yard.fill("a").added == 1


def test_a_key_that_comes_again_and_again_is_told_of_once_and_held_back_longer_and_longer(
    yard: Yard, clock: FakeClock
) -> None:
    ran_at = []
    told = []
    for _ in range(60):
        clock.advance(FILES.every)
        filled = yard.fill("a")
        told += filled.repeated
        if filled.added:
            ran_at.append(yard.store.now())
            yard.work()
    waits = [(later - earlier) // FILES.every for earlier, later in pairwise(ran_at)]
    assert waits == [1, 1, 1, 2, 4, 8, 16]
    assert told == ["a"]
    assert (yard.source.repeated_count, yard.source.last_repeated_key) == (1, "a")
    assert rows(yard.store, 'SELECT count(*) FROM event WHERE facts LIKE \'%"repeated":["a"]%\'') == [(1,)]


def test_where_repeats_are_without_limit_nothing_is_held_back(store: Store, clock: FakeClock) -> None:
    yard = Yard(store, FILES.replace(repeats=None))
    for _ in range(20):
        clock.advance(FILES.every)
        assert yard.fill("a").added == 1
        yard.work()


def test_a_key_that_fails_is_tried_again_then_kept_as_failed_and_not_added_again(yard: Yard, clock: FakeClock) -> None:
    yard.fill("a")
    for attempt in (1, 2):
        (held,) = yard.crew.exchange().claims
        yard.crew.exchange([(held.job_id, held.token, Failed(f"broke {attempt}"))], room=0)
        assert status(yard.store, held.job_id) == ("scheduled" if attempt == 1 else "failed")
        if attempt == 1:
            clock.advance(10 * SECOND)
    source = yard.source
    assert (source.error_count, source.last_error_message, source.success_count) == (2, "broke 2", 0)
    assert source.last_error_worker == yard.crew.workers[0]
    clock.advance(FILES.every)
    assert yard.fill("a").added == 0
    yard.store.jobs.retry(held.job_id)
    assert yard.work() == ["a"]
    assert yard.store.jobs.list() == []


def test_below_the_low_water_mark_the_filler_runs_before_its_time(yard: Yard) -> None:
    yard.fill(*"abcde", exhausted=False)
    claims = yard.crew.exchange(room=3).claims
    assert [claim.key for claim in claims] == ["a", "b", "c"]
    assert yard.store.sources.list()[0].filler_status == "scheduled"
    yard.crew.exchange(room=1)
    assert yard.store.sources.list()[0].filler_status == "ready"


@pytest.mark.parametrize("exhausted", [True, False])
def test_while_as_many_as_the_low_water_mark_are_ready_a_pass_adds_nothing(
    yard: Yard, clock: FakeClock, exhausted: bool
) -> None:
    yard.fill(*"abcde", exhausted=exhausted)
    for _ in range(3):
        clock.advance(FILES.every)
        assert yard.store.sources.has_enough("files")
        assert yard.fill(*"fghij", exhausted=exhausted).added == 0
    assert yard.store.sources.list()[0].counts["ready"] == 5
    claims = yard.crew.exchange(room=4).claims
    assert len(claims) == 4 and not yard.store.sources.has_enough("files")
    assert yard.store.sources.list()[0].filler_status == "ready", (
        "there may be more, although the last pass added nothing"
    )
    assert yard.fill(*"fghij").added == 5


def test_a_claim_by_hand_counts_against_the_low_water_mark_too(yard: Yard) -> None:
    yard.fill(*"abcde", exhausted=False)
    for _ in range(4):
        yard.store.claims.take(queue="tag")
    assert yard.store.sources.list()[0].filler_status == "ready"


def test_a_queue_that_ran_low_during_the_pass_is_filled_again_at_once(yard: Yard) -> None:
    reading = yard.filler()
    yard.add(reading, *"abcde", exhausted=False)
    assert len(yard.crew.exchange(room=5).claims) == 5
    yard.crew.exchange([(reading.job_id, reading.token, Snoozed(FILES.every))], room=0)
    assert yard.store.sources.list()[0].filler_status == "ready"


def test_a_source_that_came_to_its_end_is_left_alone_until_its_time(yard: Yard, clock: FakeClock) -> None:
    yard.fill("a")
    assert yard.work() == ["a"]
    (found,) = yard.store.sources.list()
    assert (found.filler_status, found.next_fill_at) == ("scheduled", yard.store.now() + FILES.every)
    assert yard.crew.exchange().claims == []
    clock.advance(FILES.every)
    assert yard.filler().job_id == yard.source.filler


def test_a_pass_that_finds_nothing_new_does_not_run_again_at_once(yard: Yard) -> None:
    assert yard.fill(exhausted=False).added == 0
    assert yard.store.sources.list()[0].filler_status == "scheduled"


def test_a_pass_without_its_claim_adds_nothing(yard: Yard) -> None:
    lost = yard.filler()
    yard.store.orchestrators.mark_dead(yard.crew.workers[0], Dead("signaled", "killed"))
    with pytest.raises(Stale, match="someone else fills"):
        yard.add(lost, "a")
    assert yard.store.jobs.list() == []


def test_a_pass_whose_filler_another_has_by_now_adds_nothing(yard: Yard) -> None:
    lost = yard.filler()
    yard.store.orchestrators.mark_dead(yard.crew.workers[0], Dead("signaled", "killed"))
    assert Crew(yard.store, queue="tag").exchange().claims[0].job_id == lost.job_id
    with pytest.raises(Stale, match="someone else fills"):
        yard.add(lost, "a")
    assert yard.store.jobs.list() == []


def test_the_filler_of_a_dead_worker_runs_again_at_once(yard: Yard) -> None:
    yard.filler()
    yard.store.orchestrators.mark_dead(yard.crew.workers[0], Dead("signaled", "killed"))
    assert Crew(yard.store, queue="tag").exchange().claims[0].kind == "rota:source:files"


def test_a_pass_that_fails_is_shown_and_tried_again_without_end(yard: Yard, clock: FakeClock) -> None:
    for _ in range(5):
        claim = yard.filler()
        yard.crew.exchange([(claim.job_id, claim.token, Failed("no such table", again=False))], room=0)
        assert yard.source.last_fill_error == "no such table"
        assert yard.crew.exchange().claims == []
        clock.advance(HOUR)
        yard.crew.renew()
    assert yard.source.error_count == 0
    yard.fill("a")
    assert yard.source.last_fill_error is None
    assert yard.store.jobs.get(yard.source.filler).attempts == 0


def test_a_filler_reported_as_done_comes_again_all_the_same(yard: Yard) -> None:
    claim = yard.filler()
    yard.crew.exchange([(claim.job_id, claim.token, Done())], room=0)
    assert yard.store.sources.list()[0].next_fill_at == yard.store.now() + FILES.every


def test_fillers_leave_no_runs_and_no_events_however_often_they_pass(yard: Yard, clock: FakeClock) -> None:
    yard.fill()
    before = yard.store.events.last()
    for _ in range(10):
        clock.advance(FILES.every)
        yard.fill()
    assert rows(yard.store, "SELECT count(*) FROM run") == [(0,)]
    assert list(yard.store.events.after(before)) == []


def test_fillers_are_not_shown_unless_asked_for_and_not_counted(yard: Yard) -> None:
    assert yard.store.jobs.list() == yard.store.jobs.list("ready") == []
    assert [job.id for job in yard.store.jobs.list(internal=True)] == [yard.source.filler]
    assert yard.store.jobs.ready() == []
    (queue,) = yard.store.queues.list()
    assert (queue.queue.name, sum(queue.counts.values())) == ("tag", 0)
    yard.filler()
    assert yard.store.jobs.list("active") == []
    assert len(yard.store.jobs.list("active", internal=True)) == 1


def test_nobody_claims_or_settles_a_filler_by_hand(yard: Yard) -> None:
    with pytest.raises(NothingReady):
        yard.store.claims.take()
    with pytest.raises(Refused, match="rota's own"):
        yard.store.claims.claim(yard.source.filler)
    with pytest.raises(Refused, match="rota's own"):
        yard.store.jobs.done(yard.source.filler, force=True)
    assert "fills a queue from source files" in yard.store.jobs.why(yard.source.filler)


def test_nobody_adds_a_job_of_an_internal_kind(store: Store) -> None:
    with pytest.raises(BadInput, match="rota's own"):
        add(store, kind="rota:source:files")


def test_a_paused_queue_is_not_filled(yard: Yard) -> None:
    yard.store.queues.pause("tag")
    assert yard.crew.exchange().claims == []
    yard.store.queues.resume("tag")
    assert yard.filler().job_id == yard.source.filler


def test_a_filler_does_not_count_against_the_limits_of_its_queue(yard: Yard) -> None:
    yard.store.queues.set("tag", concurrency=1)
    yard.fill("a", "b")
    (held,) = yard.crew.exchange().claims
    assert yard.crew.exchange().claims == []
    yard.crew.exchange([(held.job_id, held.token, Done())], room=0)
    assert yard.work() == ["b"]


def test_a_full_queue_is_filled_only_as_far_as_it_has_room(yard: Yard) -> None:
    yard.store.queues.set("tag", max_depth=2)
    assert yard.fill(*"abcd").added == 2


def test_the_pool_for_all_queues_fills_them_too(store: Store) -> None:
    store.sources.declare([FILES])
    assert Crew(store, queue="default").exchange().claims[0].kind == "rota:source:files"


def test_settling_by_hand_again_with_the_same_token_is_no_error(yard: Yard) -> None:
    yard.fill("a")
    held = yard.store.claims.take(queue="tag")
    yard.store.claims.settle(held, Done())
    yard.store.claims.settle(held, Done())
    assert yard.source.success_count == 1
    with pytest.raises(NotFound):
        yard.store.jobs.get(held.job_id)


def test_an_answer_that_was_lost_is_settled_once_and_not_refused(yard: Yard) -> None:
    yard.fill("a")
    (held,) = yard.crew.exchange().claims
    outcome = [(held.job_id, held.token, Done())]
    assert yard.crew.exchange(outcome, room=0).refused == []
    assert yard.crew.exchange(outcome, room=0, holdings=[]).refused == []
    assert yard.source.success_count == 1


def test_a_stale_token_is_refused_though_the_job_is_gone(yard: Yard) -> None:
    yard.fill("a")
    (held,) = yard.crew.exchange().claims
    assert yard.crew.exchange([(held.job_id, held.token + 99, Done())], room=0).refused == [held.token + 99]


def test_a_job_that_others_wait_for_is_kept_and_lets_them_go_on(yard: Yard, clock: FakeClock) -> None:
    yard.fill("a")
    (job,) = yard.store.jobs.list()
    waiting = add(yard.store, after=[job.id])
    yard.work()
    assert (status(yard.store, job.id), status(yard.store, waiting)) == ("done", "ready")
    assert yard.source.success_count == 1
    clock.advance(FILES.every)
    assert yard.fill("a").added == 1


def test_a_person_who_settles_a_waiting_job_removes_it(yard: Yard) -> None:
    yard.fill("a")
    (job,) = yard.store.jobs.list()
    assert yard.store.jobs.done(job.id, force=True).status == "done"
    assert yard.store.jobs.list() == []


def test_a_claimed_job_settled_without_its_token_is_counted_and_gone(yard: Yard) -> None:
    yard.fill("a")
    (job,) = yard.store.jobs.list()
    claim(yard.store, job.id)
    assert yard.store.jobs.done(job.id, {"ok": True}).result == {"ok": True}
    assert (yard.store.jobs.list(), yard.source.success_count) == ([], 1)


def test_the_memory_of_keys_is_bounded_in_number_and_time(
    yard: Yard, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "MEMORY", 6)
    for batch in ("abcde", "fghij", "klmno"):
        clock.advance(FILES.every)
        yard.fill(*batch)
        yard.work()
    clock.advance(FILES.every)
    yard.fill()
    assert rows(yard.store, "SELECT count(*) FROM source_memory") == [(6,)]
    clock.advance(2 * core.MEMORY_TIME)
    yard.crew = Crew(yard.store, queue="tag")
    yard.fill()
    assert rows(yard.store, "SELECT count(*) FROM source_memory") == [(0,)]


def test_only_sources_that_were_forgotten_are_declared_again(yard: Yard) -> None:
    other = FILES.replace(low=7)
    yard.store.sources.declare_missing([other])
    assert yard.source.declared == FILES, "it is known, as somebody else says"
    yard.store.sources.forget("files")
    yard.store.sources.declare_missing([other])
    assert yard.source.declared == other
    assert yard.filler().job_id == yard.source.filler


def test_a_forgotten_source_leaves_nothing_that_waits(yard: Yard) -> None:
    yard.fill(*"abc")
    (held,) = yard.crew.exchange().claims
    assert yard.store.sources.forget("files") == 2
    assert yard.store.sources.list() == []
    assert [job.id for job in yard.store.jobs.list(internal=True)] == [held.job_id]
    yard.crew.exchange([(held.job_id, held.token, Done())], room=0)
    assert yard.store.jobs.list(internal=True) == []
    with pytest.raises(NotFound, match="no source files"):
        yard.store.sources.forget("files")


def test_ordinary_jobs_pass_beside_those_of_sources(yard: Yard) -> None:
    plain = add(yard.store, queue="tag")
    yard.fill("a")
    assert sorted(yard.work()) == ["", "a"]
    assert status(yard.store, plain) == "done"
    assert len(yard.store.claims.runs(plain)) == 1


def test_the_counts_of_a_source_are_those_of_its_rows(yard: Yard) -> None:
    yard.fill(*"abc")
    yard.crew.exchange()
    (found,) = yard.store.sources.list()
    assert {name: count for name, count in found.counts.items() if count} == {"ready": 2, "active": 1}
