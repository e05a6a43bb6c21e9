"""Pause and resume: nothing new is claimed, nothing is lost, and it persists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done
from rota.core.errors import NotFound, NothingReady, Refused
from rota.core.times import HOUR
from tests.support.stores import again
from tests.support.work import Crew, add, claim, status, told

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def counts(store: Store) -> list[dict[str, int]]:
    return [status.counts for status in store.queues.list()]


def test_nothing_new_is_claimed_from_a_paused_queue(store: Store) -> None:
    job, other = add(store, queue="tag"), add(store, queue="other")
    crew = Crew(store, queue="tag")
    assert store.queues.pause("tag", "deploying") == ["tag"]
    with pytest.raises(Refused, match="queue tag is paused"):
        claim(store, job)
    with pytest.raises(NothingReady):
        store.claims.take(queue="tag")
    assert crew.exchange().claims == []
    assert [each.id for each in store.jobs.ready()] == [other]
    assert store.claims.take().job_id == other


def test_all_can_be_paused_and_resumed_at_once(store: Store) -> None:
    job = add(store)
    add(store, queue="other")
    store.queues.pause()
    assert store.jobs.ready() == []
    with pytest.raises(Refused):
        claim(store, job)
    assert {status.paused_by for status in store.queues.list()} == {"tester@here"}
    store.queues.pause("other")
    assert set(store.queues.resume()) == {"*", "other"}, "resuming all resumes each queue too"
    assert len(store.jobs.ready()) == 2


def test_who_holds_a_job_finishes_it(store: Store, clock: FakeClock) -> None:
    job, crew = add(store), Crew(store)
    watched = add(store)
    held = claim(store, job)
    (handout,) = crew.exchange().claims
    store.queues.pause()
    store.claims.renew(held, HOUR)
    store.claims.settle(held, Done())
    assert crew.exchange([(watched, handout.token, Done())]).refused == []
    assert (status(store, job), status(store, watched)) == ("done", "done")


def test_counts_are_unchanged_by_pause_and_resume(store: Store, clock: FakeClock) -> None:
    add(store), add(store, at=clock.wall() + HOUR), add(store, after=[1])
    before = counts(store)
    store.queues.pause()
    store.queues.pause("default")
    assert counts(store) == before
    store.queues.resume()
    assert counts(store) == before


def test_it_persists_and_others_see_it_with_who_and_why(store: Store, clock: FakeClock) -> None:
    job = add(store)
    store.queues.pause("default", "deploying")
    with again(store) as other:
        queue = other.queues.get("default")
        assert (queue.paused_by, queue.pause_reason, queue.paused_at) == ("tester@here", "deploying", clock.now())
        assert "queue default is paused by tester@here since 2027-01-15T08:00:00Z (deploying)" in other.jobs.why(job)


def test_a_second_pause_changes_nothing(store: Store, clock: FakeClock) -> None:
    add(store)
    store.queues.pause("default", "first")
    before = told(store)
    clock.advance(HOUR)
    assert store.queues.pause("default", "second") == []
    assert store.queues.get("default").pause_reason == "first" and told(store) == before
    store.queues.resume("default")
    before = told(store)
    assert store.queues.resume("default") == [] and told(store) == before


def test_jobs_are_added_to_a_paused_queue_and_wait(store: Store) -> None:
    add(store)
    store.queues.pause("default")
    assert status(store, add(store)) == "ready"
    assert store.jobs.ready() == []


@pytest.mark.parametrize("name", ["nowhere", "*"])
def test_an_unknown_queue_is_not_paused(store: Store, name: str) -> None:
    with pytest.raises(NotFound, match="`rota queue list` shows those that are"):
        store.queues.pause(name)
    with pytest.raises(NotFound):
        store.queues.resume(name)


def test_pause_and_resume_are_wishes_that_orchestrators_answer(store: Store) -> None:
    add(store)

    def directive() -> int:
        number = store.database.execute("number.get", {"name": "directive"})[0][0]
        assert isinstance(number, int)
        return number

    before = directive()
    store.queues.pause("default")
    store.queues.resume("default")
    assert directive() == before + 2
