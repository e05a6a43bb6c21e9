"""`rota.testing` on PostgreSQL: a schema of the test's own, whose clock holds in a caller's transaction too."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota import App, BadInput, Context
from rota.core.times import HOUR
from rota.testing import fresh_schema, temporary, work_off
from tests.support.stores import database_for_tests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.testing import Clock

pytestmark = pytest.mark.postgres

pytest_plugins = ["pytester"]


@pytest.fixture
def app() -> App:
    return App("sqlite:///never.db")


@pytest.fixture
def clock(app: App) -> Iterator[Clock]:
    """Of the app, which has an empty schema until the test ends."""
    with fresh_schema(database_for_tests()) as url, temporary(app, url) as clock:
        yield clock


def schemas() -> int:
    with psycopg.connect(database_for_tests()) as connection:
        row = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'rota_test_%'").fetchone()
    assert row is not None
    return int(row[0])


def test_a_fresh_schema_is_empty_and_gone_afterwards_whatever_happened(app: App) -> None:
    for _ in range(2):
        with (
            pytest.raises(ZeroDivisionError),
            fresh_schema(f"{database_for_tests()}?schema=mine") as url,
            temporary(app, url),
        ):
            assert (app.jobs.list(), schemas()) == ([], 1)
            app.enqueue(app.task()(print).job())
            raise ZeroDivisionError
        app.tasks.clear()
    assert schemas() == 0


def test_what_is_no_postgresql_database_has_no_schemas() -> None:
    with pytest.raises(BadInput, match="not a PostgreSQL URL"), fresh_schema("sqlite:///tests.db"):
        pass


def test_a_job_of_a_callers_transaction_is_worked_off_once_that_is_committed(app: App, clock: Clock) -> None:
    """By the clock of the test: whoever looked at the server's would take it for due later, or much too early."""

    @app.task()
    def one(n: int) -> int:
        return n

    with psycopg.connect(database_for_tests()) as mine:
        app.enqueue(one.job(1).replace(limit_key="k"), connection=mine)
        app.enqueue(one.job(2), connection=mine)
        app.enqueue(one.job(3).replace(at=clock.now() + HOUR), connection=mine)
        assert work_off(app) == []
        mine.commit()
        assert sorted(job.result for job in work_off(app)) == [1, 2]
        app.enqueue(one.job(4), connection=mine)
        mine.rollback()
    assert work_off(app) == []
    clock.forward("59m")
    assert work_off(app) == []
    clock.forward("1m")
    assert [job.result for job in work_off(app)] == [3]


def test_so_is_one_of_an_asynchronous_connection_and_one_that_settles_itself(app: App, clock: Clock) -> None:
    @app.task()
    def pay(order: int, ctx: Context) -> None:
        with psycopg.connect(database_for_tests()) as connection:
            ctx.settle_in(connection, {"order": order})

    async def order() -> None:
        connection = await psycopg.AsyncConnection.connect(database_for_tests())
        async with connection:
            await app.enqueue(pay.job(1), connection=connection)  # type: ignore[call-arg]

    asyncio.run(order())
    clock.forward("1d")
    assert [(job.status, job.result) for job in work_off(app)] == [("done", {"order": 1})]


def test_the_fixture_uses_the_database_that_the_tests_name(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(f"""
        import pytest

        @pytest.fixture
        def rota_database(tmp_path):
            return {database_for_tests()!r}
    """)
    pytester.makepyfile("""
        import psycopg
        import pytest
        from rota.testing import work_off

        @pytest.mark.parametrize("n", [1, 2])
        def test_new(rota_app, rota_database, n):
            @rota_app.task()
            def one():
                return n

            with psycopg.connect(rota_database) as mine:
                rota_app.enqueue(one.job(), connection=mine)
            assert [job.result for job in work_off(rota_app)] == [n]
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=2)
    assert schemas() == 0
