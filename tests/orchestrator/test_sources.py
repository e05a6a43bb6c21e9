"""Sources with real crews: each key once however many compete, no key lost to a kill, and nothing that spins."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from rota.core.source import Declared
from rota.core.times import HOUR
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.shell import ROTA, environment
from tests.support.stores import STORES, exports, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.core.source import Source

SHOP = """
import os, pathlib, signal, sqlite3, time
import rota

app = rota.App()
here = pathlib.Path(__file__).parent
own = []


def files():
    connection = sqlite3.connect(here / "files.db", timeout=60, isolation_level=None)
    connection.execute("PRAGMA synchronous=OFF")
    return connection


def note(text):
    with open(here / "ledger", "a") as ledger:
        ledger.write(f"{text}\\n")


@app.setup(queue="tag")
def setup():
    own.append(files())


@app.task(queue="tag")
def tag(path, ctx):
    if path == "broken":
        raise ValueError(path)
    if path == "deadly":
        note("deadly")
        os.kill(os.getpid(), signal.SIGKILL)
    if path == "slow":
        time.sleep(0.02)
    if path != "unmarked":
        own[-1].execute("UPDATE file SET done = done + 1 WHERE id = ?", (ctx.job.key,))
    else:
        note("unmarked")


QUERY = rota.SqlSource("SELECT id, path FROM file WHERE done = 0 ORDER BY id", connect=files)
SETTINGS = dict(queue="tag", task=tag, name="files")
"""
COMPETE = "app.source(every='1h', low=1000, batch=4000, **SETTINGS)(QUERY)"
REFILL = "app.source(every='1h', low=20, batch=100, **SETTINGS)(QUERY)"
SOON = "app.source(every='100ms', low=20, batch=100, **SETTINGS)(QUERY)"
STUCK = """
@app.source(every='1h', low=20, batch=100, **SETTINGS)
def stuck():
    note(f"filling {os.getpid()}")
    while not (here / "go-fill").exists():
        time.sleep(0.005)
    yield from QUERY()
"""
FAILING = """
@app.source(every='100ms', low=20, batch=100, **SETTINGS)
def failing():
    note("pass")
    if not (here / "go-fill").exists():
        raise ValueError("the share is not mounted")
    yield from QUERY()
"""


class Shop:
    """A crew, a table of files of the user's own, and a source over it."""

    def __init__(self, folder: Path, crew: Crew) -> None:
        self.folder = folder
        self.crew = crew
        self._beside: subprocess.Popen[bytes] | None = None

    def stock(self, source: str, paths: list[str]) -> None:
        (self.folder / "shop.py").write_text(SHOP + source)
        with closing(sqlite3.connect(self.folder / "files.db")) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE file (id INTEGER PRIMARY KEY, path TEXT, done INTEGER NOT NULL DEFAULT 0)")
            connection.executemany("INSERT INTO file (path) VALUES (?)", ((path,) for path in paths))
            connection.execute("CREATE INDEX file_done ON file (done, id)")
            connection.commit()

    def start_beside(self) -> None:
        """A second crew over the same database."""
        words = [ROTA, "worker", "start", "--name", "second", "--app", "shop:app", "--queue", "tag", "--workers", "2"]
        with self.crew.log.open("ab") as log:
            env = environment(**self.crew.env)
            self._beside = subprocess.Popen(words, cwd=self.folder, env=env, stderr=log, stdin=subprocess.DEVNULL)

    def stop_beside(self) -> int:
        assert self._beside is not None
        self._beside.terminate()
        code = self._beside.wait(60)
        self._beside = None
        return code

    def end(self) -> None:
        if self._beside is not None:
            self._beside.kill()
            self._beside.wait()
        self.crew.end()

    @property
    def source(self) -> Source:
        return self.crew.app.store.sources.get("files")

    @property
    def fill_count(self) -> int:
        """How many passes there were, as far as it is known."""
        return sum(each.source.fill_count for each in self.crew.app.store.sources.list())

    def done(self) -> dict[int, int]:
        """How many files were worked on how often."""
        with closing(sqlite3.connect(self.folder / "files.db", timeout=60)) as connection:
            return dict(connection.execute("SELECT done, count(*) FROM file GROUP BY done").fetchall())

    def fillers(self) -> set[int]:
        """The processes that ran the source."""
        return {int(line.split()[1]) for line in self.crew.ledger() if line.startswith("filling")}

    def failed(self) -> dict[str | None, str | None]:
        """The kept keys with their errors."""
        return {job.key: job.error for job in self.crew.app.jobs.list("failed")}

    def succeeded(self, count: int) -> bool:
        known = {each.source.name for each in self.crew.app.store.sources.list()}
        return "files" in known and self.source.success_count >= count


@pytest.fixture(params=STORES)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """On each kind of store."""
    where = exports(request.param, tmp_path)
    shop = Shop(tmp_path, Crew(tmp_path, ROTA_RESTART_BACKOFF="50ms", ROTA_BACKOFF_FIRST="20ms", **where))
    yield shop
    shop.end()


@pytest.mark.both_stores
def test_every_row_is_worked_on_once_though_two_crews_compete(shop: Shop) -> None:
    count = 20_000
    shop.stock(COMPETE, [f"{n}.wav" for n in range(count)])
    shop.crew.start("tag=2")
    shop.start_beside()
    eventually(lambda: shop.succeeded(count), within=120, every=0.1)
    assert (shop.crew.stop(), shop.stop_beside()) == (0, 0)
    assert shop.done() == {1: count}
    source, store = shop.source, shop.crew.app.store
    assert (source.success_count, source.error_count, source.added_count) == (count, 0, count)
    assert store.jobs.list() == []
    assert rows(store, "SELECT count(*) FROM run") == [(0,)]
    by_crew = rows(
        store,
        "SELECT slot.crew, sum(success_count) FROM worker JOIN slot ON slot.name = worker.slot GROUP BY slot.crew",
    )
    assert sum(done for _, done in by_crew) == count and all(done > 0 for _, done in by_crew) and len(by_crew) == 2


def test_a_queue_that_runs_low_is_filled_long_before_the_interval(shop: Shop) -> None:
    shop.stock(REFILL, [f"{n}.wav" for n in range(1000)])
    shop.crew.start("tag=2")
    eventually(lambda: shop.succeeded(1000), within=60)
    assert shop.done() == {1: 1000}
    assert shop.source.fill_count >= 10


def test_rows_that_come_later_are_found_after_the_interval(shop: Shop) -> None:
    shop.stock(SOON, ["a.wav"])
    shop.crew.start("tag=1")
    eventually(lambda: shop.succeeded(1))
    with closing(sqlite3.connect(shop.folder / "files.db", timeout=60)) as connection:
        connection.execute("INSERT INTO file (path) VALUES ('b.wav')")
        connection.commit()
    eventually(lambda: shop.succeeded(2))
    assert shop.done() == {1: 2}


def test_a_source_that_is_forgotten_while_a_crew_has_it_is_known_again(shop: Shop) -> None:
    shop.stock(SOON, ["a.wav"])
    shop.crew.start("tag=1")
    eventually(lambda: shop.succeeded(1))
    shop.crew.app.store.sources.forget("files")
    with closing(sqlite3.connect(shop.folder / "files.db", timeout=60)) as connection:
        connection.execute("INSERT INTO file (path) VALUES ('b.wav')")
        connection.commit()
    eventually(lambda: shop.done() == {1: 2}, within=60)


def test_what_waits_is_bounded_however_often_a_source_is_looked_at(shop: Shop) -> None:
    """At most `low` - 1 that were ready, and the `batch` that was added to them."""
    shop.stock(SOON, ["slow"] * 600)
    shop.crew.start("tag=2")
    eventually(lambda: shop.fill_count >= 6, within=60)
    (found,) = shop.crew.app.store.sources.list()
    assert found.counts["ready"] <= 119
    eventually(lambda: shop.succeeded(600), within=60)
    assert shop.done() == {1: 600}


def test_a_crew_whose_workers_do_not_have_a_source_leaves_it_to_those_that_do(shop: Shop) -> None:
    shop.stock("", [])
    store = shop.crew.app.store
    store.sources.declare([Declared("files", "tag", "tag", HOUR, 1, 10, None)])
    shop.crew.start("tag=2")
    shop.crew.done(shop.crew.add("tag", path="unmarked"))
    assert (shop.source.fill_count, store.jobs.get(shop.source.filler).attempts) == (0, 0)


@pytest.mark.both_stores
def test_a_worker_killed_while_it_fills_costs_nothing_but_time(shop: Shop) -> None:
    shop.stock(STUCK, ["a.wav", "b.wav"])
    shop.crew.start("tag=2")
    (first,) = eventually(shop.fillers)
    os.kill(first, signal.SIGKILL)
    assert len(eventually(lambda: shop.fillers() - {first})) == 1
    (shop.folder / "go-fill").touch()
    eventually(lambda: shop.succeeded(2))
    assert shop.done() == {1: 2}


def test_broken_and_deadly_keys_are_kept_and_the_others_are_done(shop: Shop) -> None:
    shop.stock(SOON, ["a.wav", "broken", "deadly", *(f"{n}.wav" for n in range(50))])
    shop.crew.start("tag=2")
    eventually(lambda: shop.succeeded(51), within=60)
    failed = eventually(lambda: shop.failed() if len(shop.failed()) == 2 else {})
    assert "ValueError: broken" in (failed["2"] or "") and "quarantined: cost 3 workers" in (failed["3"] or "")
    assert shop.crew.ledger() == ["deadly"] * 3
    fills = shop.source.fill_count
    eventually(lambda: shop.source.fill_count >= fills + 3)
    assert shop.done() == {0: 2, 1: 51}
    assert len(shop.crew.app.jobs.list()) == 2
    assert shop.source.error_count >= 4


def test_a_key_that_is_never_marked_is_told_of_and_held_back(shop: Shop) -> None:
    shop.stock(SOON, ["unmarked", "a.wav"])
    shop.crew.start("tag=1")
    eventually(lambda: shop.source.repeated_count if shop.succeeded(5) else 0)
    fills = shop.source.fill_count
    eventually(lambda: shop.source.fill_count >= fills + 5)
    assert shop.crew.ledger() == ["unmarked"] * 4
    assert shop.source.last_repeated_key == "1"
    told = [line for line in shop.crew.log.read_text().splitlines() if "held back" in line]
    assert len(told) == 1 and "source files yielded '1' again after more than 3 repeats" in told[0]
    assert "1 keys came again and again and are held back, the last '1'" in shop.crew.call("source", "list")


def test_a_source_that_fails_is_shown_tried_less_and_less_often_and_recovers(shop: Shop) -> None:
    shop.crew.env["ROTA_BACKOFF_FIRST"] = "200ms"
    shop.stock(FAILING, ["a.wav"])
    shop.crew.start("tag=1")
    eventually(lambda: len(shop.crew.ledger()) >= 3)
    assert "the last pass failed: ValueError: the share is not mounted" in shop.crew.call("source", "list")
    filler = shop.crew.app.jobs.get(shop.source.filler)
    assert filler.attempts >= 2
    (shop.folder / "go-fill").touch()
    eventually(lambda: shop.succeeded(1))
    assert shop.source.last_fill_error is None
