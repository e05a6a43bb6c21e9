"""What every job does, and how every system is asked to add jobs and to work; it runs in each system's environment.

Only the standard library may be imported here. A system is a module in `systems`; `run huey VERB …` asks it.
The folder that `BENCH_MARKS` names has one file for each thing that a job may do, and a mark in it for each time.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

COUNT, STAMP, HOLD = "count", "stamp", "hold"
PLACE, MARKS = "BENCH_PLACE", "BENCH_MARKS"
RUN = "benchmarks.peers.run"
LONG, SOON = 600.0, 20.0
_open: dict[tuple[int, str], int] = {}


def do(what: str) -> None:
    """The job: nothing but its mark."""
    _mark(what)
    if what == HOLD:
        time.sleep(LONG)


async def do_async(what: str) -> None:
    """The same as a coroutine."""
    _mark(what)
    if what == HOLD:
        await asyncio.sleep(LONG)


def _mark(what: str) -> None:
    """One short write to a file that is appended to, so that no mark of any process is lost."""
    name, _, number = what.partition(" ")
    key = (os.getpid(), name)  # a forked child opens its own
    if key not in _open:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        _open[key] = os.open(os.path.join(os.environ[MARKS], name), flags, 0o600)
    os.write(_open[key], b"." if what == COUNT else f"{time.monotonic_ns()} {os.getpid()} {number or 0}\n".encode())


def marks(folder: str, what: str) -> list[tuple[int, int, int]]:
    """When each such job began, in which process, and which one it was."""
    try:
        with open(os.path.join(folder, what), encoding="ascii") as file:
            lines = (line.split() for line in file if line.endswith("\n"))
            return [(int(at), int(pid), int(number)) for at, pid, number in lines]
    except FileNotFoundError:
        return []


def place() -> str:
    """Where the jobs are: a folder, or the URL of a server."""
    return os.environ[PLACE]


def run_all(words: list[str], workers: int, **each: Callable[[int], str]) -> None:
    """Run so many processes of the same command, until they are killed; `each` names variables of the environment."""
    processes = [
        subprocess.Popen(words, env={**os.environ, **{name: value(n) for name, value in each.items()}})
        for n in range(workers)
    ]
    for process in processes:
        process.wait()


def loops(system: str) -> list[str]:
    """The command of one worker process of a system that has none of its own."""
    return [sys.executable, "-m", RUN, system.rpartition(".")[2], "loop"]


def command(name: str) -> str:
    """A program of this environment."""
    return os.path.join(os.path.dirname(sys.executable), name)


class Peer:
    """What a system has to offer; `add` and `add_many` may be coroutines."""

    def prepare(self) -> None:
        """Make what must be there before the first job."""

    def open(self) -> Any:
        """Connect."""

    def add(self, what: str) -> Any:
        """Add one job, durable when this returns."""
        raise NotImplementedError

    add_many: Callable[[str, int], Any] | None = None

    def work(self, workers: int) -> None:
        """Run so many worker processes until killed."""
        raise NotImplementedError

    def loop(self) -> None:
        """Be one worker process, where the system has no command for that."""
        raise NotImplementedError


async def _done(answer: object) -> None:
    if inspect.isawaitable(answer):
        await answer


async def _add(peer: Peer, most: int, seconds: float) -> dict[str, float]:
    """One job after another, until there are enough or the time is over; the first, which connects, is not timed."""
    await _done(peer.open())
    await _done(peer.add(COUNT))
    started, jobs = time.perf_counter(), 0
    while jobs < most and time.perf_counter() - started < seconds:
        await _done(peer.add(COUNT))
        jobs += 1
    return {"jobs": jobs, "seconds": time.perf_counter() - started}


async def _bulk(peer: Peer, jobs: int) -> dict[str, float] | None:
    """All at once, by whatever the system offers for that."""
    if peer.add_many is None:
        return None
    await _done(peer.open())
    started = time.perf_counter()
    await _done(peer.add_many(COUNT, jobs))
    return {"jobs": jobs, "seconds": time.perf_counter() - started}


async def _pickup(peer: Peer, times: int) -> list[float]:
    """Milliseconds from before an enqueue to the start of that job, one at a time on an idle system."""
    await _done(peer.open())
    folder, found = os.environ[MARKS], list[float]()
    moments = random.Random(7)
    for n in range(times):
        await asyncio.sleep(moments.uniform(0.01, 0.06))  # out of step with whatever polls
        began = time.monotonic_ns()
        await _done(peer.add(f"{STAMP} {n}"))
        while not (seen := [at for at, _, number in marks(folder, STAMP) if number == n]):
            await asyncio.sleep(0.004)
            if time.monotonic_ns() - began > SOON * 1e9:
                return found
        found.append((seen[0] - began) / 1e6)
    return found


async def _hold(peer: Peer) -> None:
    await _done(peer.open())
    await _done(peer.add(HOLD))


def main(peer: Peer, verb: str, *words: str) -> None:
    """Do what the words say, and print the answer as JSON."""
    match verb:
        case "prepare":
            return peer.prepare()
        case "work":
            return peer.work(int(words[0]))
        case "loop":
            return peer.loop()
    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "add": lambda: _add(peer, int(words[0]), float(words[1])),
        "bulk": lambda: _bulk(peer, int(words[0])),
        "pickup": lambda: _pickup(peer, int(words[0])),
        "hold": lambda: _hold(peer),
    }
    asyncio.run(_answer(asked[verb]()))


async def _answer(asked: Awaitable[object]) -> None:
    """Print it and leave: what a client library still has open is not waited for."""
    print(json.dumps(await asked), flush=True)
    os._exit(0)
