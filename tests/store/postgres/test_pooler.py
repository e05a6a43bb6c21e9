"""Through pgbouncer in transaction mode everything works, and others are heard by polling."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done, Failed
from rota.core.errors import QueueFull
from rota.core.event import JobMoved
from rota.core.times import MINUTE, SECOND
from rota.settings import Settings
from rota.store.open import open_store
from rota.store.postgres.database import PostgresDatabase
from rota.store.postgres.dialect import as_statement
from tests.support.pooler import pooled
from tests.support.stores import database_for_tests, url_of
from tests.support.work import Crew, add, add_many, claim, finish, register, status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def pool() -> Iterator[str]:
    with pooled(database_for_tests()) as url:
        yield url


@pytest.fixture
def stores(pool: str, tmp_path: Path) -> Iterator[list[Store]]:
    """Five programs that share three connections."""
    schema = url_of("postgres", tmp_path).partition("?")[2]
    settings = Settings().replace(poll_interval=SECOND // 20)
    opened = [open_store(f"{pool}?{schema}", settings, make=True) for _ in range(5)]
    yield opened
    for store in opened:
        store.close()


def test_it_is_seen_that_a_pooler_is_in_between(stores: list[Store]) -> None:
    for store in stores:
        assert isinstance(store.database, PostgresDatabase) and not store.database.session.is_direct


def test_every_transaction_through_a_pooler_has_the_settings_of_rota(stores: list[Store]) -> None:
    for store in stores:
        assert isinstance(store.database, PostgresDatabase)
        session, asked = store.database.session, as_statement("SELECT current_setting('jit'), pg_backend_pid()")
        isolated = session.run(asked, {})
        with store.database.read():
            assert session.run(asked, {})[0][0] == isolated[0][0] == "off"
        assert store.database.execute("server.jit", {}) == [(False,)]


def test_five_programs_work_on_three_connections(stores: list[Store]) -> None:
    first, second, third, fourth, fifth = stores
    needed = add_many(first, 20, queue="q")
    later = add(second, after=needed[:2], queue="q")
    first.queues.set("limited", max_depth=1, concurrency=1, per_key=1)
    add(third, queue="limited", limit_key="k")
    with pytest.raises(QueueFull):
        add(fourth, queue="limited")
    crews = [Crew(third, 2, "q"), Crew(fourth, 1, "q")]
    for crew in crews:
        claims = crew.exchange(room=3).claims
        outcomes = [
            (each.job_id, each.token, Done("1") if n else Failed("x", again=False)) for n, each in enumerate(claims)
        ]
        assert crew.exchange(outcomes, room=0).refused == []
    worker = register(fifth)
    held = claim(fifth, fifth.claims.take(worker, "q").job_id + 1, worker)
    assert fifth.claims.renew(held).renewed_count == 1
    assert fifth.workers.heartbeat(worker) == "continue"
    first.queues.pause("q")
    first.queues.resume("q")
    first.jobs.cancel(held.job_id)
    assert first.reconcile() == second.reconcile()
    finish(second, first.jobs.ready("q")[0].id)
    assert status(fifth, later) == "blocked" and fifth.jobs.why(later)
    told = [move for event in third.events.after("0") for move in event.of(JobMoved)]
    assert len(told) > 8
    assert len(first.jobs.list()) == 22
    assert second.history.prune(older=0).jobs > 0
    kept = {(queue, state): n for queue, state, n in first.database.execute("tally.all", {}) if n}
    assert kept == {(queue, state): n for queue, state, n in first.database.execute("tally.true", {})}


def test_who_waits_hears_by_polling(stores: list[Store]) -> None:
    job, found = add(stores[0]), list[str]()

    def wait() -> None:
        found.extend(each.status for each in stores[1].jobs.wait([job], "done", MINUTE))

    waiting = Thread(target=wait)
    waiting.start()
    finish(stores[2], job)
    waiting.join(60)
    assert found == ["done"]


def test_the_files_of_a_database_are_the_same_through_the_pooler(stores: list[Store], tmp_path: Path) -> None:
    with open_store(url_of("postgres", tmp_path), Settings()) as direct:
        assert {each.database.beside for each in stores} == {direct.database.beside}
        assert {each.database.path for each in stores} != {direct.database.path}
