"""The raw limits of a crew: one writer with bare workers over socketpairs, bare processes, and the disk.

The writer writes the rows of `raw_store`, with all columns, indexes, runs, events and counters, equally durable. The
ratio to it shows what it leaves out: health checks, adaptive windows, fairness, the store thread, frames, restarts.
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

from rota.lab.bench.raw_store import RawSqlite

WINDOW = 64
PAGE = b"\0" * 4096
PAYLOAD = '{"n":1}'


def drain(path: str, jobs: int, workers: int) -> float:
    """Return jobs per second from a full queue to the last commit, with two windows in flight for each worker."""
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
    """Return milliseconds from before an insert to the handler's start: insert, wake the writer, claim, hand over."""
    worker = _fork_worker()
    wake_read, wake_write = os.pipe()
    feeder, times_ms = RawSqlite(path), list[float]()
    writer = os.fork()
    if not writer:
        _write(path, wake_read, worker[1])
    for _ in range(times):
        began = time.monotonic_ns()
        feeder.insert([PAYLOAD])
        os.write(wake_write, b"1")
        times_ms.append((json.loads(worker[1].recv(1 << 16))[2] - began) / 1e6)
        time.sleep(0.002)
    os.write(wake_write, b"0")
    os.waitpid(writer, 0)
    feeder.close()
    os.close(wake_write)
    os.close(wake_read)
    _end([worker])
    return times_ms


def _write(path: str, wake_read: int, worker: socket.socket) -> NoReturn:
    """Be the writer process: claim a job at each wake-up, and hand it to the worker."""
    try:
        queue = RawSqlite(path)
        while os.read(wake_read, 1) == b"1":
            worker.sendall(json.dumps(queue.exchange([], 1)).encode() + b"\n")
    finally:
        os._exit(0)


def _fork_worker() -> tuple[int, socket.socket]:
    """Fork a worker that answers each job of a window with a line: its id, its token, and when it began."""
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


ANSWERING = """
import socket, time
pipe = socket.socket(fileno=int(__import__("sys").argv[1]))
pipe.sendall(b"%d\\n" % time.monotonic_ns())
while pipe.recv(1):
    pipe.sendall(b"%d\\n" % time.monotonic_ns())
"""


class BareProcess:
    """A bare Python process that reports when it is up, and when it begins a job."""

    def __init__(self) -> None:
        self.pipe, theirs = socket.socketpair()
        with theirs:
            words = [sys.executable, "-c", ANSWERING, str(theirs.fileno())]
            self._process = subprocess.Popen(words, pass_fds=(theirs.fileno(),))
        self._pidfd = os.pidfd_open(self._process.pid)

    def answer(self) -> int:
        return int(self.pipe.recv(64))

    def kill(self) -> None:
        """Kill it, and wait until its end is noticed."""
        self._process.kill()
        select.select([self._pidfd], [], [])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._pidfd)
        self.pipe.close()


def recover(times: int) -> tuple[list[float], list[float]]:
    """Return milliseconds from a kill to the job's start in another process, and to a new process being up."""
    again: list[float] = []
    refilled: list[float] = []
    other, victim = BareProcess(), BareProcess()
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
        new = BareProcess()
        refilled.append((new.answer() - killed) / 1e6)
        other, victim = new, other
    other.close()
    victim.close()
    return again, refilled


def sync_times(folder: str, times: int) -> list[float]:
    """Return milliseconds for each page that is appended to a file and synced."""
    path, times_ms = os.path.join(folder, "pages"), []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(times):
            began = time.perf_counter()
            os.write(descriptor, PAGE)
            os.fsync(descriptor)
            times_ms.append((time.perf_counter() - began) * 1e3)
    finally:
        os.close(descriptor)
        os.unlink(path)
    return times_ms
