"""A job that waits for nothing is added to PostgreSQL in one message; it is the same job, told and counted the same."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from rota.core.errors import InDoubt, QueueFull
from rota.core.event import JobMoved
from rota.core.job import NewJob
from rota.core.times import SECOND
from rota.settings import Settings
from rota.store.open import open_store
from rota.store.postgres.connection import address, with_schema, without_schema
from rota.store.postgres.database import PostgresDatabase
from tests.support.cable import CUT_AFTER, CUT_BEFORE, cable
from tests.support.inflight import beside
from tests.support.stores import again, make_store, rows, url_of
from tests.support.work import add

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store

pytestmark = pytest.mark.postgres

TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
FULL = NewJob('tab "x" \\ ü', "q-1", 'tag"ü', {"n": [1, None]}, 7, max_attempts=2, timeout=SECOND, trace=TRACE)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of("postgres", tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with make_store("postgres", tmp_path) as made:
        yield made


def in_steps(store: Store) -> Store:
    other = again(store)
    assert isinstance(other.database, PostgresDatabase) and isinstance(store.database, PostgresDatabase)
    assert other.database.is_networked
    other.database.is_networked = False
    return other


@pytest.mark.parametrize("new", [NewJob("a"), FULL])
def test_it_is_the_same_job_and_the_same_news(store: Store, new: NewJob) -> None:
    with in_steps(store) as other:
        other.jobs.add(new)  # the first of a queue makes it
        cursor = store.events.last()
        ids = [other.jobs.add_many([new])[0], store.jobs.add_many([new])[0]]
        steps, one = (store.jobs.get(id) for id in ids)
        assert one.replace(id=0, created_at=0) == steps.replace(id=0, created_at=0)
        assert abs(one.created_at - steps.created_at) < 60 * SECOND
        told = [(event.actor, event.facts) for event in store.events.after(cursor)]
        actors = (other.actor, store.actor)
        assert told == [
            (actor, [JobMoved("add", new.queue, None, "ready", [id])]) for actor, id in zip(actors, ids, strict=True)
        ]
        assert rows(store, "SELECT sum(n) FROM tally WHERE status = 'ready'") == [(3,)]


def test_what_may_not_be_is_refused_as_ever(store: Store) -> None:
    store.queues.set("small", max_depth=1)
    add(store, queue="small")
    with pytest.raises(QueueFull):
        add(store, queue="small")
    add(store, queue="new")
    assert rows(store, "SELECT count(*) FROM job") == [(2,)]


def test_it_waits_for_who_must_be_alone(store: Store) -> None:
    add(store)
    with again(store) as other, ExitStack() as after:
        with other.write(exclusive=True) as tx:
            tx.execute("queue.all")  # it has begun
            adding = after.enter_context(beside(store, add))
            assert adding.waits()
            assert rows(store, "SELECT count(*) FROM job") == [(1,)]
        assert adding.answer() == 2


@pytest.mark.parametrize(("fault", "there"), [(CUT_BEFORE, 1), (CUT_AFTER, 2)])
def test_a_link_that_breaks_meanwhile_leaves_it_in_doubt(store: Store, url: str, fault: str, there: int) -> None:
    add(store)
    schema = address(url).schema
    with cable(without_schema(url)) as line, open_store(with_schema(line.url, schema), Settings()) as far:
        line.fault = fault
        with pytest.raises(InDoubt, match="may or may not stand"):
            add(far)
        assert rows(store, "SELECT count(*) FROM job") == [(there,)]
        assert add(far)
