"""Handlers that settle in a PostgreSQL transaction of their own: their rows and the outcome, both or neither."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.stores import database_for_tests, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TASKS = """
import asyncio, psycopg, rota

TABLE, BANK = os.environ["BANK_TABLE"], os.environ["BANK"]


def wait_for(name):
    note(f"at {name} {os.getpid()}")
    while not (here / f"go-{name}").exists():
        time.sleep(0.005)


@app.task(queue="tag")
def move(n: int, ctx, before: str = "", after: str = "", fail: bool = False):
    with psycopg.connect(BANK, application_name=TABLE) as bank:
        bank.execute(f"UPDATE {TABLE} SET done = done + 1 WHERE id = %s", [n])
        ctx.settle_in(bank, {"moved": n})
        if fail and ctx.attempt == 1:
            raise ValueError("not this time")
        if before and ctx.attempt == 1:
            wait_for(before)
    if after:
        wait_for(after)
    return "what is returned counts no more"


@app.task(queue="tag")
def wait_then_move(n: int, name: str, ctx):
    wait_for(name)
    with psycopg.connect(BANK) as bank:
        bank.execute(f"UPDATE {TABLE} SET done = done + 1 WHERE id = %s", [n])
        ctx.settle_in(bank)


@app.task(queue="tag")
def move_later(n: int, ctx):
    async def move():
        async with await psycopg.AsyncConnection.connect(BANK) as bank:
            await bank.execute(f"UPDATE {TABLE} SET done = done + 1 WHERE id = %s", [n])
            await ctx.settle_in(bank, n)

    asyncio.run(move())


@app.task(queue="tag")
def move_row(key, ctx):
    with psycopg.connect(BANK) as bank:
        bank.execute(f"UPDATE {TABLE} SET done = done + 1 WHERE id = %s", [ctx.job.key])
        ctx.settle_in(bank)
    note(f"moved {os.getpid()}")
"""
SOURCE = """
QUERY = rota.SqlSource(f"SELECT id FROM {TABLE} WHERE done = 0 ORDER BY id", connect=lambda: psycopg.connect(BANK))
app.source(queue="tag", task=move_row, name="rows", every="100ms", low=50, batch=200)(QUERY)
"""


# Reads, and adds what it has read only when it may.
SLOWLY = """
@app.source(queue="tag", task="move_slowly", name="rows", every="100ms", low=1, batch=10)
def rows():
    held = (here / "hold").exists()
    with psycopg.connect(BANK) as bank:
        found = [id for (id,) in bank.execute(f"SELECT id FROM {TABLE} WHERE done = 0 AND id = 1")]
    if held:
        wait_for(f"fill-{len(found)}")
    yield from found


@app.task(queue="tag")
def move_slowly(key, ctx):
    with psycopg.connect(BANK) as bank:
        bank.execute(f"UPDATE {TABLE} SET done = done + 1 WHERE id = %s", [ctx.job.key])
        ctx.settle_in(bank)
        wait_for("commit")
"""


class Bank:
    """A crew on PostgreSQL, and a table of the user's own in the same database."""

    def __init__(self, folder: Path) -> None:
        self.table = f"bank_{os.getpid()}_{folder.name.replace('-', '_')}"[:60]
        url = database_for_tests()
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(
            f"CREATE TABLE {self.table} (id BIGINT PRIMARY KEY, done BIGINT NOT NULL DEFAULT 0)".encode()
        )
        own = {"BANK": url, "BANK_TABLE": self.table, "ROTA_BACKOFF_FIRST": "20ms"}
        self.crew = Crew(folder, ROTA_DB=url_of("postgres", folder), ROTA_RESTART_BACKOFF="50ms", **own)
        self.crew.teach(TASKS)
        self.fill(3)

    def fill(self, count: int) -> None:
        self.connection.execute(
            f"INSERT INTO {self.table} (id) SELECT generate_series(1, {count}) ON CONFLICT DO NOTHING".encode()
        )

    def done(self) -> dict[int, int]:
        """How many rows were worked on how often."""
        cursor = self.connection.execute(f"SELECT done, count(*) FROM {self.table} GROUP BY done".encode())
        return dict(cursor.fetchall())

    def at(self, name: str) -> int:
        """The process that waits there."""
        lines = [line for line in self.crew.ledger() if line.startswith(f"at {name} ")]
        return int(lines[-1].split()[2]) if lines else 0

    def verbs(self, job: int) -> list[str]:
        return [run.verb for run in self.crew.app.claims.runs(job)]

    def open_transactions(self) -> int:
        """How many handlers have settled and not yet committed."""
        cursor = self.connection.execute(
            b"SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction' AND application_name = %s",
            [self.table],
        )
        return len(cursor.fetchall())

    def end(self) -> None:
        self.crew.end()
        self.connection.execute(f"DROP TABLE {self.table}".encode())
        self.connection.close()


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    bank = Bank(tmp_path)
    yield bank
    bank.end()


def test_the_rows_and_the_outcome_are_committed_together(bank: Bank) -> None:
    bank.crew.start("tag=1")
    job, later = bank.crew.add("move", n=1), bank.crew.add("move_later", n=2)
    done, done_later = bank.crew.done(job, later)
    assert (done.result, done_later.result) == ({"moved": 1}, 2)
    assert (bank.verbs(job), bank.verbs(later)) == (["finish"], ["finish"])
    assert bank.done() == {1: 2, 0: 1}
    eventually(lambda: [worker.status for worker in bank.crew.app.workers.list()] == ["idle"])


def test_what_is_rolled_back_was_not_settled(bank: Bank) -> None:
    bank.crew.start("tag=1")
    job = bank.crew.add("move", n=1, fail=True)
    assert bank.crew.done(job)[0].attempts == 2
    assert (bank.verbs(job), bank.done()) == (["fail", "finish"], {1: 1, 0: 2})


def test_a_worker_killed_before_the_commit_has_done_nothing_and_after_it_everything(bank: Bank) -> None:
    bank.crew.start("tag=1")
    job = bank.crew.add("move", n=1, before="commit")
    os.kill(eventually(lambda: bank.at("commit"), within=60), signal.SIGKILL)
    assert (bank.crew.done(job)[0].attempts, bank.verbs(job)) == (2, ["die", "finish"])
    job = bank.crew.add("move", n=2, after="return")
    pid = eventually(lambda: bank.at("return"), within=60)
    assert bank.crew.app.jobs.get(job).status == "done", "it is done as soon as its handler has committed"
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: len(bank.crew.deaths()) == 2, within=60)
    assert (bank.verbs(job), bank.done()) == (["finish"], {1: 2, 0: 1})


def test_a_lost_claim_settles_nothing_and_its_rows_are_undone(bank: Bank) -> None:
    bank.crew.start("tag=1")
    job = bank.crew.add("wait_then_move", n=1, name="cancel")
    eventually(lambda: bank.at("cancel"), within=60)
    bank.crew.app.jobs.cancel(job)
    bank.crew.let_go("cancel")
    after = bank.crew.add("move", n=2)
    bank.crew.done(after)
    assert bank.crew.app.jobs.get(job).status == "cancelled"
    assert bank.done() == {0: 2, 1: 1}


def test_while_its_transaction_is_open_the_crew_goes_on_and_an_idle_one_is_ended(bank: Bank) -> None:
    bank.crew.start("tag=2")
    open_one = bank.crew.add("move", n=1, before="commit")
    eventually(lambda: bank.at("commit"), within=60)
    bank.crew.done(*(bank.crew.add("tag", n=n) for n in range(20)))
    assert bank.crew.app.jobs.get(open_one).status == "active"
    assert bank.open_transactions() == 1
    eventually(lambda: bank.open_transactions() == 0, within=30)
    bank.crew.let_go("commit")
    assert bank.crew.done(open_one)[0].attempts == 2, "its commit failed, and the next attempt went well"
    assert bank.done() == {0: 2, 1: 1}


def test_a_pass_that_read_between_a_settlement_and_its_commit_does_not_bring_the_row_again(bank: Bank) -> None:
    bank.crew.teach(SLOWLY)
    bank.crew.start("tag=2")
    eventually(lambda: bank.at("commit"))
    (bank.crew.folder / "hold").touch()
    eventually(lambda: bank.at("fill-1"))
    bank.crew.let_go("commit")
    eventually(lambda: bank.done() == {0: 2, 1: 1})
    source = bank.crew.app.store.sources.get("rows")
    (bank.crew.folder / "hold").unlink()
    bank.crew.let_go("fill-1")
    eventually(lambda: bank.crew.app.store.sources.get("rows").fill_count > source.fill_count + 3)
    assert bank.done() == {0: 2, 1: 1}
    assert bank.crew.app.store.sources.get("rows").added_count == 1


def test_a_source_over_a_table_works_on_each_row_exactly_once_though_workers_are_killed(bank: Bank) -> None:
    count = 500
    bank.fill(count)
    bank.crew.teach(SOURCE)
    bank.crew.start("tag=2")
    for turn in range(1, 6):
        eventually(lambda turn=turn: len(bank.crew.ledger()) > 60 * turn, within=60)  # type: ignore[misc]
        os.kill(int(bank.crew.ledger()[-1].split()[1]), signal.SIGKILL)
    eventually(lambda: bank.done() == {1: count} and bank.crew.app.store.sources.get("rows").success_count, within=60)
    assert bank.done() == {1: count}
    eventually(lambda: bank.crew.app.jobs.list() == [])
    assert bank.crew.app.store.sources.get("rows").success_count == count
    assert len(bank.crew.deaths()) >= 3
