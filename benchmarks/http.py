"""The HTTP API, as a child of an orchestrator, under load.

Requests as fast as they are answered; then mixed requests at a fixed rate, alone and beside readers of the live feed,
half of which never read.

./dev bench http
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchmarks import _report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROTA = os.path.join(os.path.dirname(sys.executable), "rota")
READERS, CONNECTIONS, FLAT_OUT = 500, 64, 8
P99_MS, MEMORY_MB = 50.0, 45.0
# Of ten requests: one job six times, a page of jobs twice, a new job twice.
MIX = ("job", "job", "list", "job", "add", "job", "list", "job", "add", "job")


class Place:
    """Where the server answers, and the requests in bytes."""

    def __init__(self, url: str, secret: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0
        self._head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {secret}\r\n"
        body = json.dumps({"title": "Tag a.wav", "queue": "tag", "payload": {"path": "a.wav"}})
        json_head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.requests = {
            "job": self._bytes("GET /api/v1/jobs/1"),
            "list": self._bytes("GET /api/v1/jobs?limit=10"),
            "add": self._bytes("POST /api/v1/jobs", json_head, body),
            "info": self._bytes("GET /api/v1/info"),
        }
        self.follow = self._bytes("GET /api/v1/events?topics=queue:status,queue:tag:jobs")

    def _bytes(self, line: str, more: str = "", body: str = "") -> bytes:
        return f"{line} HTTP/1.1\r\n{self._head}{more}\r\n{body}".encode()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    """One request on a connection that stays open; the answer must be good."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(length)
    assert head.startswith(b"HTTP/1.1 200"), body


class Load:
    """What a stretch of requests cost: from when each was due, so that a late server does not slow the clock down."""

    def __init__(self, took: list[float], seconds: float, cpu: float) -> None:
        self.took = took
        self.rate = len(took) / seconds
        self.cpu = cpu / len(took)


async def load(place: Place, pid: int, rate: int, seconds: float) -> Load:
    """Mixed requests at a fixed rate; times in milliseconds."""
    due: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
    took: list[float] = []

    async def work() -> None:
        reader, writer = await asyncio.open_connection(place.host, place.port)
        while (wanted := await due.get()) is not None:
            at, request = wanted
            await ask(reader, writer, request)
            took.append((time.perf_counter() - at) * 1e3)
        writer.close()

    workers = [asyncio.create_task(work()) for _ in range(CONNECTIONS)]
    began, spent = time.perf_counter(), cpu_ms(pid)
    for n in range(round(rate * seconds)):
        at = began + n / rate
        if (early := at - time.perf_counter()) > 0.001:
            await asyncio.sleep(early)
        due.put_nowait((at, place.requests[MIX[n % len(MIX)]]))
    for _ in workers:
        due.put_nowait(None)
    await asyncio.gather(*workers)
    return Load(took, time.perf_counter() - began, cpu_ms(pid) - spent)


async def flat_out(place: Place, pid: int, name: str, seconds: float) -> Load:
    """The same request again and again on a few connections, each as soon as the last is answered."""
    took: list[float] = []
    began, spent = time.perf_counter(), cpu_ms(pid)

    async def work() -> None:
        reader, writer = await asyncio.open_connection(place.host, place.port)
        while (at := time.perf_counter()) < began + seconds:
            await ask(reader, writer, place.requests[name])
            took.append((time.perf_counter() - at) * 1e3)
        writer.close()

    await asyncio.gather(*(work() for _ in range(FLAT_OUT)))
    return Load(took, time.perf_counter() - began, cpu_ms(pid) - spent)


async def follow(place: Place, counts: list[int], n: int) -> None:
    """A reader that reads."""
    reader, writer = await asyncio.open_connection(place.host, place.port, limit=1 << 20)
    writer.write(place.follow)
    try:
        while data := await reader.read(65536):
            counts[n] += data.count(b"data: ")
    finally:
        writer.close()


def ignore(place: Place) -> socket.socket:
    """A reader that never reads."""
    lazy = socket.create_connection((place.host, place.port))
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lazy.sendall(place.follow)
    return lazy


def cpu_ms(pid: int) -> float:
    """The processor time that a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


async def measure(place: Place, pid: int, rate: int, seconds: float) -> AsyncIterator[dict[str, _report.Cell]]:
    yield {"step": "idle", **_figures(None, resident(pid))}
    for name, about in (("job", "GET one job"), ("add", "POST a job")):
        most = await flat_out(place, pid, name, seconds / 2)
        yield {"step": f"{about}, {FLAT_OUT} clients flat out", **_figures(most, resident(pid))}
    alone = await load(place, pid, rate, seconds)
    yield {"step": f"{rate} requests/s", **_figures(alone, resident(pid))}
    counts = [0] * (READERS // 2)
    lazy = [ignore(place) for _ in range(READERS // 2)]
    eager = [asyncio.create_task(follow(place, counts, n)) for n in range(READERS // 2)]
    while min(counts) == 0:
        await asyncio.sleep(0.05)
    yield {"step": f"{READERS} readers join", **_figures(None, resident(pid))}
    beside = await load(place, pid, rate, seconds)
    yield {"step": f"{rate} requests/s beside them", **_figures(beside, resident(pid))}
    for task in eager:
        task.cancel()
    for each in lazy:
        each.close()


def _figures(load: Load | None, memory: float) -> dict[str, _report.Cell]:
    names = ("per second", "p50 ms", "p99 ms", "max ms", "CPU ms each")
    if load is None:
        return {**dict.fromkeys(names), "MB": round(memory, 1), "met": None}
    p50, p99 = _report.median(load.took), _report.percentile(load.took, 0.99)
    figures = (round(load.rate), round(p50, 2), round(p99, 2), round(max(load.took), 1), round(load.cpu, 3))
    return {**dict(zip(names, figures, strict=True)), "MB": round(memory, 1), "met": p99 < P99_MS}


async def play(place: Place, pid: int, rate: int, seconds: float) -> list[dict[str, _report.Cell]]:
    for name in ("add", "list", "info"):
        await ask(*await asyncio.open_connection(place.host, place.port), place.requests[name])
    return [row async for row in measure(place, pid, rate, seconds)]


def find(folder: str) -> tuple[Place, int]:
    """Where the child answers once it is up, and its process."""
    while True:
        told = subprocess.run([ROTA, "worker", "list", "--json"], cwd=folder, capture_output=True, check=False).stdout
        up = [each["pid"] for each in json.loads(told or "[]") if (each["slot"], each["status"]) == ("http:0", "idle")]
        if up:
            url, secret = (read_beside(folder, kind) for kind in ("http", "token"))
            return Place(url, secret), up[0]
        time.sleep(0.05)


def read_beside(folder: str, kind: str) -> str:
    with open(os.path.join(folder, ".rota", f"rota.db.{kind}"), encoding="ascii") as file:
        return file.read().strip()


def main() -> None:
    parser = _report.arguments("The HTTP API under load, and what it costs in memory.")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second")
    parser.add_argument("--seconds", type=float, default=10, help="how long")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        with open(os.path.join(folder, "shop.py"), "w", encoding="utf-8") as shop:
            shop.write("from rota import App\n\napp = App()\n")
        environment = {**os.environ, "ROTA_HTTP_PORT": "0"}
        words = [ROTA, "orchestrator", "start", "--app", "shop:app", "--pool", "idle=1"]
        with subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.DEVNULL) as orchestrator:
            try:
                place, pid = find(folder)
                table = asyncio.run(play(place, pid, options.rate, options.seconds))
            finally:
                orchestrator.terminate()
    _report.show(f"http: target p99 below {P99_MS:g} ms on a quiet machine, {MEMORY_MB:g} MB idle", table, options.json)


if __name__ == "__main__":
    main()
