"""Jobs whose kind the worker that had them does not know: set aside unspent, freed by one that does, or failed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rota.core import job as jobs
from rota.core.claim import Done, Released
from rota.core.errors import Refused
from rota.core.frames.assignment import Assignment
from rota.core.frames.messages import Kinds
from rota.core.ids import worker_id
from rota.core.slot import RestartPolicy
from rota.core.times import HOUR, SECOND
from rota.live.attention import notices
from rota.process.host import host_id
from rota.store.claims.exchange import Report
from rota.store.jobs import unknown_kinds
from rota.store.maintenance.reconcile import Reconciled
from rota.store.workers.crews import Process
from rota.store.workers.death import Death
from tests.support.work import Crew, add, add_many, claim, status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.store import Store
    from tests.support.clock import FakeClock

NOTHING = Reconciled(0, 0, 0, 0, 0)
OLD, NEW = Kinds(frozenset({"tag"})), Kinds(frozenset({"fresh", "tag"}))


@pytest.fixture
def true_store(store: Store) -> Iterator[Store]:
    """At the end nothing is left to mend, and the counters are true."""
    yield store
    assert store.reconcile() == NOTHING
    kept = {(queue, state): n for queue, state, n in store.database.execute("tally.all", {}) if n}
    assert kept == {(queue, state): n for queue, state, n in store.database.execute("tally.true", {})}


def crew_of(store: Store, kinds: Kinds, queue: str = "default") -> Crew:
    """An orchestrator whose one worker declares these kinds."""
    store.slots.take("main", host_id(), {queue: 1})
    crew = Crew(store, 0, queue)
    crew.workers = [start(store, crew, kinds, queue)]
    return crew


def start(store: Store, crew: Crew, kinds: Kinds, queue: str = "default") -> str:
    """A worker comes up, and declares these kinds."""
    slot = f"worker:{queue}:0"
    worker = store.orchestrators.register_worker(
        crew.id, slot, queue, Process(worker_id(os.urandom(8)), os.getpid(), None)
    )
    store.orchestrators.came_up(worker, slot, kinds=kinds)
    return worker


def poll(store: Store, crew: Crew) -> None:
    store.orchestrators.poll(crew.id, 0, polls=True)


def not_known(claims: list[Assignment]) -> list[tuple[int, int, Released]]:
    return [(each.job_id, each.token, Released("there is no task", jobs.UNKNOWN_KIND)) for each in claims]


def set_aside(crew: Crew, room: int = 1) -> list[int]:
    """Let its worker say of what it is handed that it does not know it."""
    claims = crew.exchange([], room).claims
    assert crew.exchange(not_known(claims), 0).refused == []
    return [each.job_id for each in claims]


def test_a_job_of_an_unknown_kind_is_set_aside_unspent(true_store: Store) -> None:
    crew = crew_of(true_store, OLD)
    job = add(true_store, kind="fresh")
    assert set_aside(crew) == [job]
    found = true_store.jobs.get(job)
    assert (found.status, found.blocked_on, found.attempts) == (jobs.BLOCKED, jobs.UNKNOWN_KIND, 0)
    assert (found.note, true_store.claims.runs(job)) == ("there is no task", [])
    assert crew.exchange().claims == [] and true_store.jobs.ready() == []
    with pytest.raises(Refused, match="rota why"):
        true_store.claims.claim(job)


def test_a_worker_that_declares_the_kind_frees_it(true_store: Store) -> None:
    crew = crew_of(true_store, OLD)
    job, other = add(true_store, kind="fresh"), add(true_store, kind="strange")
    set_aside(crew, 2)
    start(true_store, crew, OLD)
    assert status(true_store, job) == jobs.BLOCKED
    start(true_store, crew, NEW)
    assert (status(true_store, job), status(true_store, other)) == (jobs.READY, jobs.BLOCKED)
    (again,) = crew.exchange().claims
    assert (again.job_id, again.attempt) == (job, 1)
    crew.exchange([(job, again.token, Done())], 0)


def test_a_worker_of_every_kind_frees_all(true_store: Store) -> None:
    crew = crew_of(true_store, OLD)
    job = add(true_store, kind="strange")
    set_aside(crew)
    start(true_store, crew, Kinds(every=True))
    assert status(true_store, job) == jobs.READY


def test_one_set_aside_while_a_worker_knows_it_is_freed_by_the_next_poll(true_store: Store) -> None:
    """As in a deploy, while old workers and new ones serve the same queue."""
    crew = crew_of(true_store, NEW)
    job = add(true_store, kind="fresh")
    set_aside(crew)
    assert status(true_store, job) == jobs.BLOCKED
    poll(true_store, crew)
    assert status(true_store, job) == jobs.READY


def test_a_worker_of_another_queue_frees_nothing(true_store: Store) -> None:
    true_store.slots.take("main", host_id(), {"tag": 1, "other": 1})
    crew = crew_of(true_store, OLD, "tag")
    job = add(true_store, kind="fresh", queue="tag")
    set_aside(crew)
    start(true_store, crew, NEW, "other")
    poll(true_store, crew)
    assert status(true_store, job) == jobs.BLOCKED


def test_the_pool_default_frees_those_of_queues_without_a_pool(true_store: Store) -> None:
    crew = crew_of(true_store, OLD)
    job = add(true_store, kind="fresh", queue="tag")
    set_aside(crew)
    start(true_store, crew, NEW)
    assert status(true_store, job) == jobs.READY


def test_very_many_are_freed_in_turns_that_others_can_work_between(
    true_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_kinds, "FREED_AT_ONCE", 2)
    monkeypatch.setattr(unknown_kinds, "MOST_CHUNKS", 2)
    crew = crew_of(true_store, NEW)
    add_many(true_store, 9, kind="fresh")
    add(true_store, kind="strange")
    add_many(true_store, 2, kind="tag")
    assert len(set_aside(crew, 12)) == 12
    seen = []
    for _ in range(4):
        poll(true_store, crew)
        seen.append(true_store.queues.counts()["default"].get("ready", 0))
    assert seen[0] == 4 and seen[-1] == 11


def test_after_the_time_out_it_fails_and_says_why(true_store: Store, clock: FakeClock) -> None:
    crew = crew_of(true_store, OLD)
    job = add(true_store, kind="fresh")
    then = add(true_store, after=[job])
    set_aside(crew)
    clock.advance(HOUR - SECOND)
    crew.renew()
    true_store.tick()
    assert status(true_store, job) == jobs.BLOCKED
    clock.advance(SECOND)
    crew.renew()
    true_store.tick()
    found = true_store.jobs.get(job)
    assert (found.status, found.attempts) == (jobs.FAILED, 0)
    assert found.error == "no worker knew its kind, 'fresh', within 1h"
    assert status(true_store, then) == jobs.BLOCKED
    true_store.jobs.retry(job)
    assert status(true_store, job) == jobs.READY


def test_it_does_not_fail_while_its_queue_has_no_worker(true_store: Store, clock: FakeClock) -> None:
    """A crew that was stopped overnight for a deploy begins with the new application."""
    crew = crew_of(true_store, OLD)
    job = add(true_store, kind="fresh")
    set_aside(crew)
    true_store.orchestrators.leave(crew.id)
    clock.advance(10 * HOUR)
    true_store.tick()
    assert status(true_store, job) == jobs.BLOCKED
    start(true_store, Crew(true_store, 0), NEW)
    assert status(true_store, job) == jobs.READY


def test_why_and_attention_name_the_kind_and_what_the_workers_know(true_store: Store) -> None:
    crew = crew_of(true_store, OLD)
    assert notices(true_store) == []
    first, _ = add_many(true_store, 2, kind="fresh")
    set_aside(crew, 2)
    told = true_store.jobs.why(first)
    assert f"Job {first} waits for a worker that knows its kind, 'fresh': those of queue default know tag;" in told
    assert "it fails after " in told and "unless one comes" in told
    (notice,) = [each for each in notices(true_store) if each.noun == "queue"]
    assert (notice.which, notice.since) == ("default", true_store.now())
    assert notice.text == "2 jobs of kind fresh wait for a worker that knows it"
    true_store.orchestrators.leave(crew.id)
    assert "queue default has no worker now" in true_store.jobs.why(first)


def test_room_under_a_limit_goes_to_the_next_and_is_asked_for_again(true_store: Store) -> None:
    crew = crew_of(true_store, OLD)
    add(true_store)
    crew.exchange([(each.job_id, each.token, Done()) for each in crew.exchange().claims], 0)
    true_store.queues.set("default", per_key=1)
    first, second = (add(true_store, kind=kind, limit_key="disk") for kind in ("fresh", "tag"))
    assert (status(true_store, first), status(true_store, second)) == (jobs.READY, jobs.BLOCKED)
    set_aside(crew)
    assert status(true_store, second) == jobs.READY
    held = claim(true_store, second)
    start(true_store, crew, NEW)
    found = true_store.jobs.get(first)
    assert (found.status, found.blocked_on) == (jobs.BLOCKED, jobs.LIMIT)
    true_store.claims.settle(held, Done())
    assert status(true_store, first) == jobs.READY


def test_one_that_is_made_to_wait_for_another_goes_on_with_that(true_store: Store) -> None:
    crew = crew_of(true_store, NEW)
    job = add(true_store, kind="fresh")
    set_aside(crew)
    needed = add(true_store, kind="tag")
    true_store.jobs.block(job, needed)
    poll(true_store, crew)
    found = true_store.jobs.get(job)
    assert (found.status, found.blocked_on) == (jobs.BLOCKED, jobs.DEPENDENCY)
    true_store.jobs.done(needed, force=True)
    assert status(true_store, job) == jobs.READY


def test_a_person_cancels_one_or_settles_it(true_store: Store) -> None:
    crew = crew_of(true_store, OLD)
    first, second = add_many(true_store, 2, kind="fresh")
    set_aside(crew, 2)
    assert true_store.jobs.cancel(first).status == jobs.CANCELLED
    assert true_store.jobs.done(second, force=True).status == jobs.DONE


def test_known_jobs_behind_many_unknown_ones_are_claimed_without_walking_past_them(true_store: Store) -> None:
    """Once set aside they are not among those that a claim reads; none is filtered."""
    crew = crew_of(true_store, OLD)
    add_many(true_store, 300, kind="fresh", priority=9)
    job = add(true_store, kind="tag")
    assert len(set_aside(crew, 300)) == 300
    assert true_store.database.execute("job.ready", {"queue": "default", "most": 1000})[0][0] == job
    assert [each.job_id for each in crew.exchange([], 10).claims] == [job]


def test_the_death_of_its_worker_settles_what_it_said_of_a_kind(true_store: Store) -> None:
    crew = crew_of(true_store, OLD)
    job = add(true_store, kind="fresh")
    claims = crew.exchange().claims
    death = Death(crew.workers[0], "worker:default:0", "signaled", "signal 9", signal=9)
    true_store.orchestrators.record_death(death, Report(not_known(claims)), RestartPolicy())
    found = true_store.jobs.get(job)
    assert (found.status, found.blocked_on, found.attempts, found.deaths) == (jobs.BLOCKED, jobs.UNKNOWN_KIND, 0, 0)
