"""A crew of coroutines: many in one worker, each with its own claim, and a poison one among them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from rota.core.job import NewJob
from rota.core.times import SECOND
from tests.support.crews import children
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.crews import Crew

TASKS = """
import asyncio

app.pool("fetch", concurrency=100)


@app.task(queue="fetch")
async def get(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /{path} HTTP/1.0\\r\\n\\r\\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode().rpartition("\\r\\n")[2]


@app.task(queue="fetch")
async def wait(name: str) -> str:
    note(f"hold {name} {os.getpid()}")
    while not (here / f"go-{name}").exists():
        await asyncio.sleep(0.01)
    return name


@app.task(queue="fetch")
async def speak(ctx, name: str) -> None:
    note(f"hold {name} {os.getpid()}")
    while not (here / f"go-{name}").exists():
        await asyncio.sleep(0.01)
    ctx.log(f"I am {name}")


@app.task(queue="fetch")
async def deaf(name: str) -> None:
    note(f"hold {name} {os.getpid()}")
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass


@app.task(queue="fetch")
async def poison() -> None:
    note("poison")
    await asyncio.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Server:
    """An HTTP server that answers nobody before `wanted` are waiting."""

    def __init__(self, wanted: int) -> None:
        self.most = self._now = 0
        self._wanted = wanted
        self.port = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(30)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._end, self._all = asyncio.Event(), asyncio.Event()
        async with await asyncio.start_server(self._answer, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._end.wait()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        self._now += 1
        self.most = max(self.most, self._now)
        if self._now >= self._wanted:
            self._all.set()
        await self._all.wait()
        self._now -= 1
        writer.write(f"HTTP/1.0 200 OK\r\n\r\nyou asked for {path}".encode())
        await writer.drain()
        writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


@pytest.fixture
def fetching(crew: Crew) -> Crew:
    crew.teach(TASKS)
    return crew


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(100)
    yield made
    made.close()


def add(crew: Crew, kind: str, payload: dict[str, object] | None = None, **more: object) -> int:
    return crew.app.enqueue(NewJob(kind, queue="fetch", kind=kind, payload=payload).replace(**more)).id


def finished(crew: Crew, *ids: int) -> bool:
    return all(crew.app.jobs.get(id).status in ("done", "failed") for id in ids)


def test_a_hundred_in_one_worker_wait_for_a_server_at_the_same_time(fetching: Crew, server: Server) -> None:
    ids = [add(fetching, "get", {"port": server.port, "path": str(n)}) for n in range(150)]
    fetching.start("fetch=1")
    eventually(lambda: finished(fetching, *ids), within=60)
    assert [fetching.app.jobs.get(id).result for id in ids] == [f"you asked for /{n}" for n in range(150)]
    assert server.most == 100, "as many as the pool says, and not more"
    assert fetching.stop() == 0


def test_a_poison_one_among_twenty_is_quarantined_and_the_others_finish(fetching: Crew) -> None:
    others = [add(fetching, "wait", {"name": str(n)}) for n in range(10)]
    bad = add(fetching, "poison", max_attempts=5)
    others += [add(fetching, "wait", {"name": str(n)}) for n in range(10, 20)]
    fetching.start("fetch=1")
    eventually(lambda: fetching.ledger().count("poison") > 1 or len(fetching.ledger()) > 21)
    for n in range(20):
        fetching.let_go(str(n))
    eventually(lambda: finished(fetching, bad, *others), within=60)
    job = fetching.app.jobs.get(bad)
    assert job.status == "failed" and "quarantined: cost 3 workers" in (job.error or "")
    assert fetching.ledger().count("poison") == 4, "once with all the others, three times alone"
    for id in others:
        found = fetching.app.jobs.get(id)
        assert (found.status, found.attempts, found.deaths) == ("done", 1, 0)
        assert len(fetching.app.claims.runs(id)) <= 2
    assert fetching.stop() == 0


def test_a_deadline_ends_one_and_the_others_go_on(fetching: Crew) -> None:
    late = add(fetching, "wait", {"name": "late"}, timeout=SECOND, max_attempts=1)
    other = add(fetching, "wait", {"name": "other"})
    fetching.start("fetch=1")
    eventually(lambda: fetching.app.jobs.get(late).status == "failed")
    assert fetching.app.claims.runs(late)[0].reason == "timeout"
    pid = fetching.held_by("other")
    fetching.let_go("other")
    eventually(lambda: finished(fetching, other))
    assert children(fetching.pid) == [pid], "the worker is the same"


def test_one_that_does_not_end_is_ended_with_its_worker_and_alone_pays(fetching: Crew) -> None:
    late = add(fetching, "deaf", {"name": "late"}, timeout=SECOND, max_attempts=1)
    other = add(fetching, "wait", {"name": "other"})
    fetching.start("fetch=1")
    eventually(lambda: fetching.app.jobs.get(late).status == "failed")
    assert fetching.app.claims.runs(late)[0].reason == "timeout"
    fetching.let_go("other")
    eventually(lambda: finished(fetching, other))
    job = fetching.app.jobs.get(other)
    assert (job.attempts, job.deaths, job.isolated) == (1, 0, 0)


def test_cancelling_one_leaves_the_others(fetching: Crew) -> None:
    first, second = (add(fetching, "wait", {"name": name}) for name in "ab")
    fetching.start("fetch=1")
    eventually(lambda: fetching.held_by("a") and fetching.held_by("b"))
    fetching.call("cancel", str(first))
    fetching.let_go("b")
    eventually(lambda: finished(fetching, second))
    assert fetching.app.jobs.get(first).status == "cancelled"
    assert children(fetching.pid) == [fetching.held_by("b")]


@pytest.mark.both_stores
def test_the_queues_own_limit_is_kept_by_many_in_one_hand(fetching: Crew) -> None:
    fetching.call("queue", "set", "fetch", "--concurrency", "3")
    ids = [add(fetching, "wait", {"name": str(n)}) for n in range(6)]
    fetching.start("fetch=1")
    eventually(lambda: len(fetching.ledger()) == 3)
    assert sum(fetching.app.jobs.get(id).status == "active" for id in ids) == 3
    for n in range(6):
        fetching.let_go(str(n))
    eventually(lambda: finished(fetching, *ids))


def test_a_source_fills_their_queue_beside_them(fetching: Crew) -> None:
    fetching.teach("""
@app.source(queue="fetch", task="wait", every="100ms")
def names():
    note("pass")
    time.sleep(0.3)  # in a thread: the loop goes on turning
    yield from (name for name in ("a", "b", "c") if not (here / f"gone-{name}").exists())


@app.task(queue="fetch")
async def turn() -> float:
    longest = 0.0
    for _ in range(100):
        began = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - began)
    return longest
""")
    fetching.start("fetch=1")
    eventually(lambda: sum(line.startswith("hold") for line in fetching.ledger()) == 3)
    id = add(fetching, "turn")
    eventually(lambda: finished(fetching, id), within=30)
    longest = fetching.app.jobs.get(id).result
    assert isinstance(longest, float) and longest < 0.25
    for name in "abc":
        (fetching.folder / f"gone-{name}").touch()
        (fetching.folder / f"go-{name}").touch()
    eventually(lambda: fetching.app.store.sources.get("names").success_count == 3)
    assert fetching.stop() == 0


@pytest.mark.both_stores
def test_a_killed_orchestrator_costs_no_coroutine(fetching: Crew) -> None:
    ids = [add(fetching, "wait", {"name": str(n)}) for n in range(10)]
    fetching.start("fetch=1")
    eventually(lambda: len(fetching.ledger()) == 10)
    fetching.stop(signal.SIGKILL)
    for n in range(10):
        fetching.let_go(str(n))
    eventually(lambda: finished(fetching, *ids))
    assert len(fetching.ledger()) == 10, "none ran twice"


def test_a_stop_waits_for_all_that_are_in_hand(fetching: Crew) -> None:
    ids = [add(fetching, "wait", {"name": str(n)}) for n in range(10)]
    fetching.start("fetch=1")
    eventually(lambda: len(fetching.ledger()) == 10)
    os.kill(fetching.pid, signal.SIGTERM)
    eventually(lambda: "stopping" in fetching.log.read_text())
    for n in range(10):
        fetching.let_go(str(n))
    assert fetching.wait() == 0
    assert finished(fetching, *ids)


def test_each_log_line_carries_the_run_of_its_own_coroutine(fetching: Crew) -> None:
    fetching.start("fetch=1")
    ids = {name: add(fetching, "speak", {"name": name}) for name in ("a", "b", "c")}
    eventually(lambda: all(fetching.held_by(name) for name in ids))
    for name, id in ids.items():
        fetching.let_go(name)
        fetching.done(id)
        (line,) = eventually(lambda name=name: fetching.said(f"I am {name}"))  # type: ignore[misc]
        assert fetching.app.claims.runs(id)[0].id in line
