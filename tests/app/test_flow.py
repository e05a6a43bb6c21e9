"""Chains, batches and debounce as an application writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rota
from rota import App
from rota.core.times import DAY
from rota.settings import Settings
from rota.testing import temporary, work_off
from tests.support.stores import STORES, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.task import Task
    from rota.worker.context import Context


class Shop:
    """An app with a task that adds one to what came before, one that fails, and one that reports."""

    def __init__(self, url: str) -> None:
        self.app = App(url, Settings(backoff_first=DAY, backoff_most=DAY))

        @self.app.task()
        def add(n: int, ctx: Context) -> int:
            return n + int(sum(each.result for each in ctx.results()))

        @self.app.task()
        def broken() -> None:
            raise rota.GiveUp("no use")

        @self.app.task()
        def report(ctx: Context) -> list[list[object]]:
            return [[each.status, each.result, each.error is None] for each in ctx.results()]

        self.add: Task[..., int] = add
        self.broken: Task[..., None] = broken
        self.report: Task[..., list[list[object]]] = report


@pytest.fixture(params=STORES)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(url_of(request.param, tmp_path))
    yield shop
    shop.app.close()


def test_a_chain_runs_one_after_another_and_each_step_sees_the_one_before(shop: Shop) -> None:
    steps = shop.app.chain(shop.add.job(1), shop.add.job(2), shop.add.job(3))
    assert [step.get().status for step in steps] == ["ready", "blocked", "blocked"]
    ended = work_off(shop.app)
    assert [job.id for job in ended] == [step.id for step in steps]
    assert [step.get().result for step in steps] == [1, 3, 6]


def test_an_empty_chain_is_none_and_one_that_is_refused_adds_nothing(shop: Shop) -> None:
    assert shop.app.chain() == []
    with pytest.raises(rota.BadInput, match="title"):
        shop.app.chain(shop.add.job(1), rota.NewJob(" "))
    assert shop.app.jobs.list() == []


def test_a_batch_is_made_durable_with_its_callback_when_the_block_ends(shop: Shop) -> None:
    with shop.app.batch(then=shop.report.job()) as batch:
        for n in range(3):
            batch.add(shop.add.job(n))
        assert shop.app.jobs.list() == []
    assert len(batch.jobs) == 3 and batch.then.get().status == "blocked"
    work_off(shop.app)
    assert batch.then.get().result == [["done", n, True] for n in range(3)]


def test_a_block_that_raises_adds_nothing(shop: Shop) -> None:
    with pytest.raises(ZeroDivisionError), shop.app.batch(then=shop.report.job()) as batch:
        batch.add(shop.add.job(1))
        print(1 / 0)
    assert shop.app.jobs.list() == []


def test_the_callback_waits_for_success_or_for_any_end(shop: Shop) -> None:
    batches = []
    for until in ("done", "final"):
        with shop.app.batch(then=shop.report.job(), until=until) as batch:
            batch.add(shop.add.job(1))
            batch.add(shop.broken.job())
        batches.append(batch)
    work_off(shop.app)
    strict, patient = batches
    assert strict.then.get().status == "blocked" and "which has failed" in shop.app.jobs.why(strict.then.id)
    assert patient.then.get().result == [["done", 1, True], ["failed", None, False]]


def test_an_empty_batch_is_over_at_once(shop: Shop) -> None:
    with shop.app.batch(then=shop.report.job()) as batch:
        pass
    work_off(shop.app)
    assert batch.jobs == [] and batch.then.get().result == []


def test_thousands_of_jobs_have_one_callback(shop: Shop) -> None:
    with shop.app.batch(then=shop.report.job()) as batch:
        for n in range(3000):
            batch.add(shop.add.job(n))
    then = batch.then.get()
    assert len(then.after) == 3000 and then.status == "blocked"


def test_a_debounced_job_runs_once_with_what_came_last(shop: Shop, tmp_path: Path) -> None:
    with temporary(shop.app, f"sqlite:///{tmp_path}/other.db") as clock:
        for n in range(5):
            shop.app.enqueue(shop.add.job(n).replace(key="save", debounce="5s"))
            clock.forward("3s")
            assert work_off(shop.app) == []
        clock.forward("2s")
        assert [job.result for job in work_off(shop.app)] == [4]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"cron": "often"}, "not a cron expression"),
        ({"cron": "1 */10 * * * * *"}, "or six with seconds before them"),
        ({"cron": "* * * * *", "timezone": "Mars"}, "not a time zone"),
        ({"cron": "* * * * *", "missed": "never"}, "one of skip, once, all"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_where_it_is_declared(
    shop: Shop, words: dict[str, str], message: str
) -> None:
    with pytest.raises(rota.BadInput, match=message):
        shop.app.task(**words)(print_nothing)  # type: ignore[arg-type]


def print_nothing() -> None:
    """Do nothing."""


def test_a_task_by_the_clock_must_do_without_arguments(shop: Shop) -> None:
    with pytest.raises(
        rota.BadInput, match="called without arguments, and cannot be: missing a required argument: 'n'"
    ):

        @shop.app.task(cron="* * * * *")
        def needy(n: int) -> None: ...

    @shop.app.task(cron="* * * * *")
    def fine(ctx: Context, n: int = 3) -> None: ...

    assert list(shop.app.schedules) == ["fine"]
