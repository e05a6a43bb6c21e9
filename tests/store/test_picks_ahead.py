"""An idle crew's claim on PostgreSQL: few messages, and what comes first still comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rota.core.claim import Done
from rota.core.job import NewJob
from rota.core.queue import DEFAULT
from rota.core.times import MILLISECOND
from rota.process.host import host_id
from rota.store.postgres.database import PostgresDatabase
from tests.support.eventually import eventually
from tests.support.stores import make_store, rows
from tests.support.work import Crew, add

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store

pytestmark = pytest.mark.postgres


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """On the server's own clock."""
    with make_store("postgres", tmp_path) as made:
        yield made


@pytest.fixture(params=["q", DEFAULT])
def crew(request: pytest.FixtureRequest, store: Store) -> Crew:
    """One that has had a job of the queue already, so it knows the queue: its own, or the only one without a pool."""
    crew = Crew(store, 1, request.param)
    add(store, queue="q")
    (held,) = crew.exchange().claims
    crew.exchange([(held.job_id, held.token, Done())], room=0)
    return crew


def test_one_answer_is_waited_for_between_its_beginning_and_its_commit(
    store: Store, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store.database, PostgresDatabase)
    session, waited = store.database.session, list[str]()
    take = session._answer

    def answer(asked: Any) -> Any:
        if asked.result is None:
            waited.append(str(asked.statement.text))
        return take(asked)

    job = add(store, queue="q")
    monkeypatch.setattr(session, "_answer", answer)
    assert [each.job_id for each in crew.exchange().claims] == [job]
    assert len(waited) == 1


def test_what_came_due_meanwhile_comes_first(store: Store, crew: Crew) -> None:
    add(store, queue="q")
    soon = store.database.wall() + 300 * MILLISECOND
    (better,) = store.jobs.add_many([NewJob("better", "q", priority=9, at=soon)])
    eventually(lambda: store.database.wall() > soon)
    assert [each.job_id for each in crew.exchange().claims] == [better]


def test_a_queue_that_was_paused_or_limited_since_gives_nothing_away(store: Store, crew: Crew) -> None:
    first, second = add(store, queue="q"), add(store, queue="q")
    store.queues.pause("q")
    assert crew.exchange(room=2).claims == []
    store.queues.resume("q")
    store.queues.set("q", concurrency=1)
    assert [each.job_id for each in crew.exchange(room=2).claims] == [first]
    assert rows(store, "SELECT status FROM job WHERE id = :id", id=second) == [("ready",)]


def test_the_only_queue_without_a_pool_may_be_another_the_next_time(store: Store) -> None:
    spare, own = Crew(store, 1, DEFAULT), Crew(store, 1, "a")
    first, second = add(store, queue="a"), add(store, queue="b")
    assert [each.job_id for each in spare.exchange(room=2).claims] == [first, second]
    store.slots.take("main", host_id(), {"b": 1})
    third = add(store, queue="a")
    assert [each.job_id for each in spare.exchange(room=2).claims] == [third], "now a is the only one"
    store.slots.take("main", host_id(), {"a": 1, "b": 1})
    fourth, _ = add(store, queue="a"), add(store, queue="b")
    assert spare.exchange(room=2).claims == [], "now both have one"
    assert [each.job_id for each in own.exchange().claims] == [fourth]
