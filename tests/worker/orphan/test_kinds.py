"""Commands and coroutines whose orchestrator was killed: they finish, or end with all that they started."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rota.core.times import SECOND
from tests.support.eventually import eventually
from tests.support.stores import STORES
from tests.worker.abandoned import Abandoned, is_alive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TASKS = """
import asyncio
app.pool("crowd", concurrency=10)

@app.task(queue="crowd")
async def fetch(name):
    note(f"hold {name}")
    while not (here / f"go-{name}").exists():
        await asyncio.sleep(0.005)
    return name

HOLD = "echo hold $1 >> ledger; echo $$ > pid-$1; while [ ! -e go-$1 ]; do sleep 0.02; done; echo 5"

@app.command(argv=["sh", "-c", HOLD, "sh", "{payload.name}"])
def wait(name): ...
"""


@pytest.fixture(params=STORES)
def abandoned(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Abandoned]:
    made = Abandoned(tmp_path, request.param, TASKS)
    yield made
    made.end()


def command(abandoned: Abandoned) -> int:
    return int((abandoned.folder / "pid-c").read_text())


def test_coroutines_finish_alone_each_with_its_own_claim(abandoned: Abandoned) -> None:
    ids = [abandoned.add("fetch", queue="crowd", payload={"name": str(n)}) for n in range(5)]
    abandoned.start(5, queue="crowd", concurrency=10)
    abandoned.holds("4")
    abandoned.orphan()
    eventually(abandoned.is_alone)
    for n in (3, 0, 4, 2, 1):
        abandoned.let_go(str(n))
        eventually(lambda id=ids[n]: abandoned.job(id).status == "done")  # type: ignore[misc]
    eventually(abandoned.is_over)
    assert [abandoned.job(id).result for id in ids] == list("01234")
    assert abandoned.worker().status == "stopped"


def test_a_late_coroutine_is_cancelled_and_the_others_go_on(abandoned: Abandoned) -> None:
    late = abandoned.add("fetch", queue="crowd", payload={"name": "late"}, timeout=3 * SECOND, max_attempts=1)
    other = abandoned.add("fetch", queue="crowd", payload={"name": "other"})
    abandoned.start(2, queue="crowd", concurrency=10)
    abandoned.holds("other")
    abandoned.orphan()
    eventually(lambda: abandoned.job(late).status == "failed")
    assert abandoned.job(late).error == "ran past its time-out"
    assert abandoned.job(other).status == "active"
    abandoned.let_go("other")
    eventually(lambda: abandoned.job(other).status == "done")


def test_one_of_several_that_was_called_off_ends_and_the_others_go_on(abandoned: Abandoned) -> None:
    ids = [abandoned.add("fetch", queue="crowd", payload={"name": name}) for name in "ab"]
    abandoned.start(2, queue="crowd", concurrency=10)
    abandoned.holds("b")
    abandoned.orphan()
    eventually(abandoned.is_alone)
    abandoned.store.jobs.cancel(ids[0])
    abandoned.let_go("b")
    eventually(lambda: abandoned.job(ids[1]).status == "done")
    eventually(abandoned.is_over)


def test_a_command_finishes_alone(abandoned: Abandoned) -> None:
    id = abandoned.add("wait", payload={"name": "c"})
    abandoned.start()
    abandoned.holds("c")
    abandoned.orphan()
    eventually(abandoned.is_alone)
    abandoned.let_go("c")
    eventually(lambda: abandoned.job(id).status == "done")
    assert abandoned.job(id).result == 5


def test_a_command_ends_with_a_worker_that_dies_alone(abandoned: Abandoned) -> None:
    id = abandoned.add("wait", payload={"name": "c"})
    abandoned.start()
    abandoned.holds("c")
    abandoned.orphan()
    eventually(abandoned.is_alone)
    pid = eventually(lambda: command(abandoned))
    os.kill(abandoned.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid))
    eventually(lambda: abandoned.job(id).status == "ready")


def test_a_command_ends_when_its_claim_was_taken_while_it_was_alone(abandoned: Abandoned) -> None:
    id = abandoned.add("wait", payload={"name": "c"})
    abandoned.start()
    abandoned.holds("c")
    abandoned.orphan()
    eventually(abandoned.is_alone)
    pid = eventually(lambda: command(abandoned))
    abandoned.store.jobs.cancel(id)
    eventually(lambda: not is_alive(pid))
    eventually(abandoned.is_over)
