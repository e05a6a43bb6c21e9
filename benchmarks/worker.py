"""One worker on its own: no-op jobs a second over its pipe, how soon it is ready, and how much memory it takes.

./dev bench worker
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import _report
from rota.core.frames import codec as frames

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS, WINDOW = 50_000, 64
SHOP = """
from rota import App

app = App()

@app.task()
def bare():
    pass

@app.task()
def numbered(n):
    return n

@app.task()
def asking(n, ctx):
    return ctx.attempt
"""


def main() -> None:
    options = _report.arguments("What one worker does over its pipe, with nobody else in the way.").parse_args()
    kinds = {"bare": None, "numbered": '{"n":7}', "asking": '{"n":7}'}
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    costs: dict[str, list[float]] = {kind: [] for kind in kinds}
    ready, memory = [], []
    for _ in range(options.rounds or 5):
        for kind, payload in kinds.items():
            with tempfile.TemporaryDirectory() as folder:
                rate, cost, started, megabytes = _measure(Path(folder), kind, payload)
            rates[kind].append(rate)
            costs[kind].append(cost * 1e6)
            ready.append(started * 1e3)
            memory.append(megabytes)
    table: list[dict[str, _report.Cell]] = [
        {"what": f"jobs/s, {kind}", "p50": _report.median(found), "best": max(found), "spread": _report.spread(found)}
        for kind, found in rates.items()
    ]
    small = [*((f"µs of CPU a job, {kind}", costs[kind]) for kind in kinds), ("ready after ms", ready), ("MB", memory)]
    for what, found in small:
        table.append({"what": what, "p50": _report.median(found), "best": min(found), "spread": _report.spread(found)})
    _report.show(f"worker: {JOBS:,} jobs in windows of {WINDOW}, two of them in flight", table, options.json)


def _measure(folder: Path, kind: str, payload: str | None) -> tuple[float, float, float, float]:
    """Jobs a second, seconds of CPU for each, seconds until it was ready, and megabytes at the end."""
    (folder / "shop.py").write_text(SHOP)
    ours, theirs = socket.socketpair()
    told = {"FRAME_FD": str(theirs.fileno()), "SLOT": "worker:default:0", "QUEUE": "default"}
    told |= {"WORKER_ID": "worker-00000001", "APP": "shop:app", "DB": str(folder / "rota.db")}
    environment = {**os.environ, **{f"ROTA_{name}": value for name, value in told.items()}}
    started = time.perf_counter()
    with ours, theirs:
        command = [sys.executable, "-m", "rota.worker"]
        with subprocess.Popen(command, cwd=folder, env=environment, pass_fds=(theirs.fileno(),)) as worker:
            theirs.close()
            _until(ours, b"HEALTH|")
            is_ready = time.perf_counter() - started
            windows, before = list(_windows(kind, payload)), _processor(worker.pid)
            rate = _drive(ours, windows)
            cost = (_processor(worker.pid) - before) / JOBS
            megabytes = _resident(worker.pid)
            ours.sendall(frames.encode(frames.STOP, {}))
            worker.wait(30)
    return rate, cost, is_ready, megabytes


def _windows(kind: str, payload: str | None) -> Iterator[bytes]:
    for first in range(1, JOBS + 1, WINDOW):
        jobs: list[dict[str, object]] = [
            {"id": n, "token": n, "queue": "default", "kind": kind, "title": kind, "payload": payload, "attempt": 1,
             "max_attempts": 3, "timeout": None, "checkpoint": None, "priority": 0, "previous_runs": []}
            for n in range(first, min(first + WINDOW, JOBS + 1))
        ]  # fmt: skip
        yield frames.encode(frames.RUN, {"jobs": jobs, "settled": first - 2 * WINDOW, "renewed_at": 0})


def _drive(pipe: socket.socket, windows: list[bytes]) -> float:
    """Keep two windows in flight until every job is reported; jobs a second."""
    started, sent, done = time.perf_counter(), 0, 0
    while done < JOBS:
        while sent < len(windows) and sent * WINDOW - done <= WINDOW:
            pipe.sendall(windows[sent])
            sent += 1
        done += pipe.recv(1 << 18).count(b"\n")
    return JOBS / (time.perf_counter() - started)


def _until(pipe: socket.socket, mark: bytes) -> None:
    heard = b""
    while mark not in heard:
        heard += pipe.recv(1 << 16)


def _processor(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
