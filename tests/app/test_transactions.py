"""Jobs enqueued in a caller's own transaction: there if and only if it commits, and in nobody's way until then."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.rows import dict_row

from rota import App, Context
from rota.core.claim import Done
from rota.core.errors import BadInput, NotFound, QueueFull, RotaError, SchemaMismatch, StoreAway, StoreError
from rota.core.event import JobMoved
from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.migrate import LATEST
from rota.store.postgres import caller_transaction
from rota.testing import work_off
from tests.support.eventually import eventually
from tests.support.inflight import in_flight
from tests.support.stores import database_for_tests, rows, url_of
from tests.support.work import Crew, add, claim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Connection = psycopg.Connection[tuple[object, ...]]

pytestmark = pytest.mark.postgres

ORDER = "INSERT INTO customer_order DEFAULT VALUES"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App(url_of("postgres", tmp_path), Settings())
    app.store.queues.set("tag", breaker=None)
    yield app
    app.close()


@pytest.fixture
def mine(app: App) -> Iterator[Connection]:
    """A connection of the user's own, with a table of the user's own."""
    connection = psycopg.connect(database_for_tests())
    connection.execute("CREATE TEMP TABLE customer_order (id BIGINT GENERATED ALWAYS AS IDENTITY)")
    connection.commit()
    yield connection
    connection.close()


def orders(mine: Connection) -> int:
    (row,) = mine.execute("SELECT count(*) FROM customer_order").fetchall()
    assert isinstance(row[0], int)
    return row[0]


def counted(app: App) -> None:
    """The kept counters tell what the rows tell."""
    kept = {(queue, state): n for queue, state, n in app.store.database.execute("tally.all", {}) if n}
    assert kept == {(queue, state): n for queue, state, n in app.store.database.execute("tally.true", {})}


def test_a_job_is_there_if_and_only_if_the_transaction_commits(app: App, mine: Connection) -> None:
    mine.execute(ORDER)
    undone = app.enqueue(NewJob("a", "tag"), connection=mine)
    mine.rollback()
    mine.execute(ORDER)
    job = app.enqueue(NewJob("b", "tag", payload={"n": 1}), connection=mine)
    with pytest.raises(NotFound):
        job.get()
    mine.commit()
    assert job.get().status == "ready" and job.get().payload_json == '{"n":1}'
    with pytest.raises(NotFound):
        undone.get()
    assert orders(mine) == 1
    assert [each.id for each in app.jobs.list()] == [job.id]
    counted(app)


def test_the_first_thing_in_a_transaction_may_be_the_job(app: App, mine: Connection) -> None:
    job = app.enqueue(NewJob("a", "tag"), connection=mine)
    assert mine.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    mine.commit()
    assert job.get().status == "ready"


def test_what_several_callers_added_is_still_counted_when_reconcile_brings_their_counts_together(
    app: App, mine: Connection
) -> None:
    with psycopg.connect(database_for_tests()) as other:
        for connection in (mine, other, other):
            app.enqueue(NewJob("a", "tag"), connection=connection)
            connection.commit()
    app.store.reconcile()
    assert app.store.queues.counts()["tag"]["ready"] == 3
    counted(app)


def test_a_connection_that_commits_by_itself_needs_a_transaction(app: App, mine: Connection) -> None:
    mine.autocommit = True
    with pytest.raises(BadInput, match=r"with connection\.transaction\(\)"):
        app.enqueue(NewJob("a", "tag"), connection=mine)
    with mine.transaction():
        job = app.enqueue(NewJob("a", "tag"), connection=mine)
    assert job.get().status == "ready"
    with pytest.raises(ZeroDivisionError), mine.transaction():
        app.enqueue(NewJob("b", "tag"), connection=mine)
        raise ZeroDivisionError
    assert len(app.jobs.list()) == 1


def test_what_is_refused_leaves_the_transaction_and_its_settings_as_they_were(app: App, mine: Connection) -> None:
    app.store.queues.set("tag", max_depth=1)
    add(app.store, queue="tag")
    mine.execute("SET LOCAL search_path TO pg_catalog, public")
    mine.execute("SET LOCAL lock_timeout TO '7s'")
    mine.execute(f"INSERT INTO pg_temp.{ORDER.split()[2]} DEFAULT VALUES")
    with pytest.raises(QueueFull):
        app.enqueue(NewJob("a", "tag"), connection=mine)
    kept = app.enqueue(NewJob("b", "other"), connection=mine)
    shown = [
        mine.execute(f"SHOW {name}").fetchone() for name in ("search_path", "lock_timeout", "jit", "seq_page_cost")
    ]
    assert shown == [("pg_catalog, public",), ("7s",), ("on",), ("1",)]
    mine.commit()
    assert (orders(mine), kept.get().status) == (1, "ready")


def test_the_callers_rows_and_notices_stay_the_callers(app: App) -> None:
    heard: list[str] = []
    with (
        warnings.catch_warnings(),
        psycopg.connect(database_for_tests(), row_factory=dict_row) as mine,
    ):
        warnings.simplefilter("error")
        mine.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
        job = app.enqueue(NewJob("a", "tag"), connection=mine)
        mine.execute("DO $$ BEGIN RAISE NOTICE 'hello'; END $$")
        assert mine.execute("SELECT 1 AS one").fetchone() == {"one": 1}
    assert heard == ["hello"] and job.get().status == "ready"


def test_a_unique_job_of_a_callers_transaction_keeps_no_crew_waiting(app: App, mine: Connection) -> None:
    first = add(app.store, queue="tag", key="k")
    claim = app.store.claims.claim(first)
    assert app.enqueue(NewJob("a", "tag", key="k", unique="active"), connection=mine).id == first
    app.store.claims.settle(claim, Done())
    second = app.enqueue(NewJob("a", "tag", key="k", unique="active"), connection=mine)
    mine.commit()
    assert second.id != first and second.get().key == "k"
    with pytest.raises(BadInput, match="unique='waiting' and a connection of yours"):
        app.enqueue(NewJob("a", "tag", key="k", unique="waiting"), connection=mine)
    with pytest.raises(BadInput, match="debounce and a connection of yours"):
        app.enqueue(NewJob("a", "tag", key="k", debounce="5s"), connection=mine)


def test_several_jobs_and_a_key_met_again(app: App, mine: Connection) -> None:
    known = add(app.store, queue="tag", key="k")
    many = app.enqueue_many([NewJob("a", "tag", key="k"), NewJob("b", "tag", key="l")], connection=mine)
    again = app.enqueue(NewJob("c", "tag", key="l"), connection=mine)
    assert many[0].id == known and again.id == many[1].id
    mine.commit()
    assert len(app.jobs.list()) == 2
    counted(app)


def test_jobs_of_one_transaction_may_wait_for_each_other_and_for_no_others(app: App, mine: Connection) -> None:
    other = add(app.store, queue="tag")
    first = app.enqueue(NewJob("a", "tag"), connection=mine)
    second = app.enqueue(NewJob("b", "tag", after=[first.id]), connection=mine)
    with pytest.raises(BadInput, match=f"job {other} is not of this transaction"):
        app.enqueue(NewJob("c", "tag", after=[other]), connection=mine)
    mine.commit()
    assert second.get().status == "blocked"
    app.claims.settle(claim(app.store, first.id), Done())
    assert second.get().status == "ready"


def test_a_caller_who_names_a_job_of_others_is_refused_without_waiting_for_it(app: App, mine: Connection) -> None:
    job = add(app.store, queue="tag")
    mine.execute("SET lock_timeout = '500ms'")
    mine.commit()
    with in_flight(app.store, lambda own: own.jobs.cancel(job)) as busy:
        with pytest.raises(BadInput, match="not of this transaction"):
            app.enqueue(NewJob("b", "tag", after=[job]), connection=mine)
        assert not isinstance(busy.go_on(), RotaError)


def test_a_job_over_its_keys_limit_waits_though_a_caller_added_it(app: App, mine: Connection) -> None:
    app.store.queues.set("tag", per_key=1)
    for title in "ab":
        app.enqueue(NewJob(title, "tag", limit_key="k"), connection=mine)
    mine.commit()
    app.store.tick()
    assert sorted(job.status for job in app.jobs.list()) == ["blocked", "ready"]
    counted(app)


def test_while_it_is_open_nobody_else_waits(app: App, mine: Connection) -> None:
    """Crews claim and settle, people pause and set limits, and reconciling goes on."""
    app.store.queues.set("tag", concurrency=5, max_depth=50, per_key=1)
    crew = Crew(app.store, 2, "tag")
    before = add(app.store, queue="tag")
    first = app.enqueue(NewJob("a", "tag", limit_key="k"), connection=mine)
    app.enqueue(NewJob("b", "tag", after=[first.id]), connection=mine)
    app.store.database.session.connection.execute("SET lock_timeout = '500ms'")  # type: ignore[attr-defined]
    (held,) = crew.exchange().claims
    assert held.job_id == before
    assert crew.exchange([(held.job_id, held.token, Done())]).refused == []
    add(app.store, queue="tag")
    app.queues.pause("tag")
    app.queues.resume("tag")
    app.store.queues.set("tag", per_key=2)
    app.reconcile()
    mine.commit()
    assert first.get().status == "scheduled"
    assert rows(app.store, "SELECT count(*) FROM tally WHERE shard >= 16") == [(2,)], "counters of a crew's own"
    app.reconcile()
    assert rows(app.store, "SELECT count(*) FROM tally WHERE shard >= 16") == [(0,)]
    counted(app)


def test_a_reader_of_events_neither_misses_it_nor_waits_for_it(app: App, mine: Connection) -> None:
    events, read = app.store.events, list[int]()
    cursor = events.last()
    late = app.enqueue(NewJob("late", "tag"), connection=mine).id
    early = [add(app.store, queue="tag") for _ in range(3)]

    def read_on() -> None:
        nonlocal cursor
        for event in events.after(cursor, 2):
            read.extend(move.ids[0] for move in event.of(JobMoved))
            cursor = event.cursor

    for _ in range(3):
        read_on()
    assert read == early, "it is left open, and nobody waits for it"
    mine.commit()
    early.append(add(app.store, queue="tag"))
    for _ in range(3):
        read_on()
    assert read == [*early[:3], late, early[3]]


def test_a_commit_is_heard_by_who_waits_for_work(app: App, mine: Connection) -> None:
    listener = app.store.database.listen()
    app.enqueue(NewJob("a", "tag"), connection=mine)
    assert not listener.wait(0.2), "nothing is to be heard before the commit"
    mine.commit()
    assert listener.wait(10)
    listener.close()


def test_a_handler_under_test_settles_in_its_own_transaction(app: App, mine: Connection, tmp_path: Path) -> None:
    @app.task(queue="tag")
    def buy(ctx: Context) -> None:
        mine.execute(ORDER)
        ctx.settle_in(mine, "bought")
        mine.commit()

    app.enqueue(app.template("buy"))
    (done,) = work_off(app, "tag")
    assert (done.status, done.result, orders(mine)) == ("done", "bought", 1)
    counted(app)
    in_a_file = App(str(tmp_path / "rota.db"), Settings())
    in_a_file.task(queue="tag")(buy.function)
    in_a_file.enqueue(in_a_file.template("buy"))
    (failed,) = work_off(in_a_file, "tag")
    assert "here they are in SQLite" in (failed.error or "")
    in_a_file.close()


def test_an_asynchronous_connection_is_awaited(app: App) -> None:
    async def both() -> tuple[int, int]:
        connection = await psycopg.AsyncConnection.connect(database_for_tests())
        undone = await app.enqueue(NewJob("a", "tag"), connection=connection)
        await connection.rollback()
        done = await app.enqueue_many([NewJob("b", "tag")], connection=connection)
        await connection.commit()
        await connection.close()
        return undone.id, done[0].id

    undone, done = asyncio.run(both())
    assert [job.id for job in app.jobs.list()] == [done] and undone != done


def test_who_is_cancelled_leaves_a_connection_that_works(app: App, mine: Connection) -> None:
    app.enqueue(NewJob("b", "tag", key="k"), connection=mine)

    async def cancelled() -> int:
        async with await psycopg.AsyncConnection.connect(database_for_tests()) as connection:
            adding = asyncio.ensure_future(app.enqueue(NewJob("a", "tag", key="k"), connection=connection))
            pid = connection.info.backend_pid
            waiting = "SELECT 1 FROM pg_locks WHERE pid = :pid AND NOT granted"
            await asyncio.to_thread(eventually, lambda: rows(app.store, waiting, pid=pid))
            adding.cancel()
            await asyncio.wait([adding], timeout=0.3)
            assert not adding.done(), "it is still at it, and the connection is not free"
            mine.rollback()
            with pytest.raises(asyncio.CancelledError):
                await adding
            cursor = await connection.execute("SELECT 7")
            row = await cursor.fetchone()
            await connection.rollback()
            assert row is not None
            return int(row[0])

    assert asyncio.run(cancelled()) == 7
    assert app.jobs.list() == []


def test_bad_input_is_refused_with_what_would_be_right(app: App, mine: Connection, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a connection of psycopg 3"):
        app.enqueue(NewJob("a"), connection=object())  # type: ignore[call-overload]
    with pytest.raises(BadInput, match="wait= and connection="):
        app.enqueue(NewJob("a"), "5s", connection=mine)
    with pytest.raises(BadInput, match="here they are in SQLite"):
        App(str(tmp_path / "rota.db"), Settings()).enqueue(NewJob("a"), connection=mine)
    with pytest.raises(BadInput, match="pipeline"), mine.pipeline():
        app.enqueue(NewJob("a"), connection=mine)
    with pytest.raises(psycopg.errors.DivisionByZero):
        mine.execute("SELECT 1 / 0")
    with pytest.raises(BadInput, match="roll it back first"):
        app.enqueue(NewJob("a"), connection=mine)
    mine.rollback()
    mine.execute("SET TRANSACTION READ ONLY")
    with pytest.raises(StoreError, match="read-only"):
        app.enqueue(NewJob("a"), connection=mine)
    mine.close()
    with pytest.raises(StoreAway, match="closed"):
        app.enqueue(NewJob("a"), connection=mine)


def test_a_database_without_rota_is_named(app: App, tmp_path: Path) -> None:
    elsewhere = App(url_of("postgres", tmp_path / "elsewhere"), Settings())
    with psycopg.connect(database_for_tests()) as mine, pytest.raises(NotFound, match="has no database of rota"):
        elsewhere.enqueue(NewJob("a"), connection=mine)


def test_a_database_with_an_older_schema_is_refused_and_nothing_is_added(
    app: App, mine: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_transaction, "LATEST", LATEST + 1)
    with pytest.raises(SchemaMismatch, match="`rota migrate` brings it there"):
        app.enqueue(NewJob("a", "tag"), connection=mine)
    assert rows(app.store, "SELECT count(*) FROM job") == [(0,)]


def test_a_database_from_before_0_1_is_refused_and_nothing_is_added(app: App, mine: Connection) -> None:
    rows(app.store, "UPDATE migration SET number = 9")
    with pytest.raises(SchemaMismatch, match=r"development version of rota from before 0\.1 \(schema 9\)"):
        app.enqueue(NewJob("a", "tag"), connection=mine)
    assert rows(app.store, "SELECT count(*) FROM job") == [(0,)]


def test_a_link_that_breaks_undoes_both(app: App, mine: Connection) -> None:
    mine.execute("SELECT 1")
    with psycopg.connect(database_for_tests(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [mine.info.backend_pid])
    with pytest.raises(StoreAway):
        app.enqueue(NewJob("a", "tag"), connection=mine)
    assert app.jobs.list() == []
