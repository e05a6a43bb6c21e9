"""The thread that looks: it comes back with the store, never stops the screen, and leaves nothing behind."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from rota.core.event import JobMoved
from rota.settings import Settings
from rota.store.open import open_store
from rota.top import store_calls
from rota.top.store_calls import FAILED, Away, Reader, Snapshot, Update
from tests.support.cable import Cable, cable
from tests.support.eventually import eventually
from tests.support.stores import STORES, database_for_tests, make_store, url_of
from tests.support.work import add, add_many, fail, finish
from tests.top.watch import Watch, watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with make_store(request.param, tmp_path) as opened:
        yield opened


class Reports:
    """What a reader tells, kept."""

    def __init__(self, url: str) -> None:
        self.all: list[Update | Away] = []
        self.reader = Reader(lambda: open_store(url, Settings()), self.all.append)
        self.reader.start()

    @property
    def snapshot(self) -> Snapshot:
        return next(each.snapshot for each in reversed(self.all) if isinstance(each, Update))

    def verbs(self) -> list[str]:
        """The moves of jobs that were told, in order."""
        events = [event for each in self.all if isinstance(each, Update) for event in each.events]
        return [move.verb for event in events for move in event.of(JobMoved)]


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that looks only when it is notified or asked: what it shows cannot come from a periodic look."""
    monkeypatch.setattr(store_calls, "AT_LEAST_EVERY", 3600.0)
    monkeypatch.setattr(store_calls, "LONGEST", 3600.0)


@pytest.fixture
def reports(store: Store) -> Iterator[Reports]:
    reports = Reports(store.database.url)
    eventually(lambda: reports.all)
    yield reports
    reports.reader.end()
    assert not reports.reader.is_alive()


@pytest.mark.both_stores
@pytest.mark.usefixtures("seldom")
def test_what_happens_is_seen_soon_by_the_bell_and_every_move_is_told_once(store: Store, reports: Reports) -> None:
    jobs = add_many(store, 3)
    eventually(lambda: [job.id for job in reports.snapshot.held] == [] and reports.snapshot.queues, within=60)
    for job in jobs:
        finish(store, job)
    eventually(lambda: reports.snapshot.queues[0].counts["done"] == 3, within=60)
    assert reports.verbs() == ["add"] + ["claim", "finish"] * 3


@pytest.mark.usefixtures("seldom")
def test_the_last_minutes_of_the_log_are_told_first_and_not_again(store: Store) -> None:
    finish(store, add(store))
    reports = Reports(store.database.url)
    eventually(lambda: reports.all)
    finish(store, add(store))
    eventually(lambda: reports.snapshot.queues[0].counts["done"] == 2, within=60)
    reports.reader.end()
    assert reports.verbs() == ["add", "claim", "finish"] * 2


@pytest.mark.usefixtures("seldom")
def test_other_jobs_are_listed_at_once_when_asked_for(store: Store, reports: Reports) -> None:
    broken = add(store)
    fail(store, broken, again=False)
    eventually(lambda: reports.snapshot.queues and reports.snapshot.queues[0].counts["failed"], within=60)
    assert reports.snapshot.listed == []
    reports.reader.select(FAILED)
    eventually(lambda: [job.id for job in reports.snapshot.listed] == [broken], within=60)


@pytest.mark.usefixtures("seldom")
def test_what_a_screen_asks_is_answered_with_every_look(store: Store, reports: Reports) -> None:
    id = add(store)
    reports.reader.ask(lambda store: store.jobs.get(id).status)
    eventually(lambda: isinstance(reports.all[-1], Update) and reports.all[-1].answer == "ready", within=60)
    finish(store, id)
    eventually(lambda: isinstance(reports.all[-1], Update) and reports.all[-1].answer == "done", within=60)


def test_nothing_is_looked_at_while_nothing_happens(store: Store, reports: Reports) -> None:
    add(store)
    eventually(lambda: reports.snapshot.queues, within=60)
    ((at, count),) = [(reports.snapshot.now, len(reports.all))]
    eventually(lambda: len(reports.all) > count, within=60)
    assert reports.snapshot.now - at > 3_000_000


@pytest.fixture
def link() -> Iterator[Cable]:
    with cable(database_for_tests()) as link:
        yield link


@pytest.mark.postgres
def test_a_store_that_is_away_is_said_and_comes_back_by_itself(link: Cable, tmp_path: Path) -> None:
    direct = url_of("postgres", tmp_path)
    with make_store("postgres", tmp_path) as store:
        add(store, queue="before")

        async def scene(top: Watch) -> None:
            await top.sees("before", "open")
            link.down = True
            link.cut()
            await top.press("1")
            await top.sees("✖ the store is away, this is how it was", within=60)
            assert top.line("before", "open")
            add(store, queue="meanwhile")
            link.down = False
            await top.sees("meanwhile", "open", within=60)
            await top.sees("● healthy")
            assert not top.line("away")

        threads = threading.active_count()
        watch(f"{link.url}?{direct.partition('?')[2]}", scene)
        eventually(lambda: threading.active_count() <= threads)
