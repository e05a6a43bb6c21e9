"""The thread that looks: it comes back with the store, never stops the screen, and leaves nothing behind."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from rota.settings import Settings
from rota.store.open import open_store
from rota.top import reader
from rota.top.look import FAILED, Look
from rota.top.reader import Away, Reader, Seen
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


class Told:
    """What a reader tells, kept."""

    def __init__(self, url: str) -> None:
        self.all: list[Seen | Away] = []
        self.reader = Reader(lambda: open_store(url, Settings()), self.all.append)
        self.reader.start()

    @property
    def look(self) -> Look:
        return next(each.look for each in reversed(self.all) if isinstance(each, Seen))

    def verbs(self) -> list[str]:
        """The moves of jobs that were told, in order."""
        events = [event for each in self.all if isinstance(each, Seen) for event in each.events]
        return [fact[1] for event in events for fact in event.facts if fact[0] == "job"]


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that looks only when it is notified or asked: what it shows cannot come from a periodic look."""
    monkeypatch.setattr(reader, "AT_LEAST_EVERY", 3600.0)
    monkeypatch.setattr(reader, "LONGEST", 3600.0)


@pytest.fixture
def told(store: Store) -> Iterator[Told]:
    told = Told(store.database.url)
    eventually(lambda: told.all)
    yield told
    told.reader.end()
    assert not told.reader.is_alive()


@pytest.mark.both_stores
@pytest.mark.usefixtures("seldom")
def test_what_happens_is_seen_soon_by_the_bell_and_every_move_is_told_once(store: Store, told: Told) -> None:
    jobs = add_many(store, 3)
    eventually(lambda: [job.id for job in told.look.held] == [] and told.look.queues, within=60)
    for job in jobs:
        finish(store, job)
    eventually(lambda: told.look.queues[0].counts["done"] == 3, within=60)
    assert told.verbs() == ["add"] + ["claim", "finish"] * 3


@pytest.mark.usefixtures("seldom")
def test_the_last_minutes_of_the_log_are_told_first_and_not_again(store: Store) -> None:
    finish(store, add(store))
    told = Told(store.database.url)
    eventually(lambda: told.all)
    finish(store, add(store))
    eventually(lambda: told.look.queues[0].counts["done"] == 2, within=60)
    told.reader.end()
    assert told.verbs() == ["add", "claim", "finish"] * 2


@pytest.mark.usefixtures("seldom")
def test_other_jobs_are_listed_at_once_when_asked_for(store: Store, told: Told) -> None:
    broken = add(store)
    fail(store, broken, again=False)
    eventually(lambda: told.look.queues and told.look.queues[0].counts["failed"], within=60)
    assert told.look.listed == []
    told.reader.select(FAILED)
    eventually(lambda: [job.id for job in told.look.listed] == [broken], within=60)


@pytest.mark.usefixtures("seldom")
def test_what_a_screen_asks_is_answered_with_every_look(store: Store, told: Told) -> None:
    id = add(store)
    told.reader.ask(lambda store: store.jobs.get(id).status)
    eventually(lambda: isinstance(told.all[-1], Seen) and told.all[-1].answer == "ready", within=60)
    finish(store, id)
    eventually(lambda: isinstance(told.all[-1], Seen) and told.all[-1].answer == "done", within=60)


def test_nothing_is_looked_at_while_nothing_happens(store: Store, told: Told) -> None:
    add(store)
    eventually(lambda: told.look.queues, within=60)
    ((at, count),) = [(told.look.now, len(told.all))]
    eventually(lambda: len(told.all) > count, within=60)
    assert told.look.now - at > 3_000_000


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
