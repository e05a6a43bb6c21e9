"""The raw limits of a crew: one writer and bare workers over socketpairs, with nothing around them.

The rows are those of `raw`: the same columns, indexes, runs, events and counters, and the same durability. What is
left out is what the ratio shows: health, windows that learn, fairness, the store thread, frames, restarts.
"""

from __future__ import annotations

import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import Any, NoReturn

from rota.lab.bench.raw_sqlite import RawSqlite

WINDOW = 64
PAYLOAD = '{"n":1}'


def drain(path: str, jobs: int, workers: int) -> float:
    """Jobs a second from a full queue to the last commit, two windows in flight for each worker."""
    pipes = [_fork_worker() for _ in range(workers)]
    queue = RawSqlite(path)
    queue.insert([PAYLOAD] * jobs)
    waiting = selectors.DefaultSelector()
    for index, (_, pipe) in enumerate(pipes):
        waiting.register(pipe, selectors.EVENT_READ, index)
    flight, rest = [0] * workers, [b""] * workers
    outcomes: list[Any] = []
    done, started = 0, time.perf_counter()
    while done < jobs:
        room = {index: 2 * WINDOW - held for index, held in enumerate(flight) if held <= WINDOW}
        if room:
            claims = queue.exchange(outcomes, sum(room.values()))
            done, outcomes = done + len(outcomes), []
            for index, size in room.items():
                mine, claims = claims[:size], claims[size:]
                if mine:
                    pipes[index][1].sendall(json.dumps(mine).encode() + b"\n")
                    flight[index] += len(mine)
        if any(flight):
            for key, _ in waiting.select():
                *lines, rest[key.data] = (rest[key.data] + key.fileobj.recv(1 << 20)).split(b"\n")  # type: ignore[union-attr]
                flight[key.data] -= len(lines)
                outcomes += [json.loads(line) for line in lines]
    rate = jobs / (time.perf_counter() - started)
    queue.close()
    _end(pipes)
    return rate


def pickup(path: str, times: int) -> list[float]:
    """Milliseconds from before the insert to the handler's start: insert, wake the writer, claim, hand over."""
    worker = _fork_worker()
    ears, bell = os.pipe()
    feeder, found = RawSqlite(path), list[float]()
    writer = os.fork()
    if not writer:
        _write(path, ears, worker[1])
    for _ in range(times):
        began = time.monotonic_ns()
        feeder.insert([PAYLOAD])
        os.write(bell, b"1")
        found.append((json.loads(worker[1].recv(1 << 16))[2] - began) / 1e6)
        time.sleep(0.002)
    os.write(bell, b"0")
    os.waitpid(writer, 0)
    feeder.close()
    os.close(bell)
    os.close(ears)
    _end([worker])
    return found


def _write(path: str, ears: int, worker: socket.socket) -> NoReturn:
    """A process that claims a job at every ring of the bell, and hands it over."""
    try:
        queue = RawSqlite(path)
        while os.read(ears, 1) == b"1":
            worker.sendall(json.dumps(queue.exchange([], 1)).encode() + b"\n")
    finally:
        os._exit(0)


def _fork_worker() -> tuple[int, socket.socket]:
    """A process that answers each job of a window with a line: its id, its token, and when it began."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    ours.close()
    try:
        for window in theirs.makefile("rb"):
            for id, token, _, _, payload in json.loads(window):
                began = time.monotonic_ns()
                json.loads(payload)
                theirs.sendall(json.dumps((id, token, began)).encode() + b"\n")
    finally:
        os._exit(0)


def _end(workers: list[tuple[int, socket.socket]]) -> None:
    for pid, pipe in workers:
        pipe.close()
        os.kill(pid, signal.SIGKILL)  # a sibling's copy of the pipe may keep it open
        os.waitpid(pid, 0)


WAITS = """
import socket, time
pipe = socket.socket(fileno=int(__import__("sys").argv[1]))
pipe.sendall(b"%d\\n" % time.monotonic_ns())
while pipe.recv(1):
    pipe.sendall(b"%d\\n" % time.monotonic_ns())
"""


class Bare:
    """A bare Python process that says when it is up, and when it begins a job."""

    def __init__(self) -> None:
        self.pipe, theirs = socket.socketpair()
        with theirs:
            words = [sys.executable, "-c", WAITS, str(theirs.fileno())]
            self._process = subprocess.Popen(words, pass_fds=(theirs.fileno(),))
        self._pidfd = os.pidfd_open(self._process.pid)

    def answer(self) -> int:
        return int(self.pipe.recv(64))

    def kill(self) -> None:
        """Kill it, and see its death."""
        self._process.kill()
        select.select([self._pidfd], [], [])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._pidfd)
        self.pipe.close()


def mend(times: int) -> tuple[list[float], list[float]]:
    """Milliseconds from a kill to the job's start in another process, and to a new process being up."""
    again: list[float] = []
    refilled: list[float] = []
    other, victim = Bare(), Bare()
    other.answer()
    victim.answer()
    for _ in range(times):
        victim.pipe.send(b"1")
        victim.answer()
        killed = time.monotonic_ns()
        victim.kill()
        other.pipe.send(b"1")
        again.append((other.answer() - killed) / 1e6)
        victim.close()
        new = Bare()
        refilled.append((new.answer() - killed) / 1e6)
        other, victim = new, other
    other.close()
    victim.close()
    return again, refilled
