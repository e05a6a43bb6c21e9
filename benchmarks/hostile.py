"""How soon `/healthz` answers while one token asks for what is cheap to ask and costs the server most.

    ./dev bench hostile          `--seconds 8` for each; `--only NAME` for one

The requests come from a process of their own, as fast as they are answered, over several connections. A second process
of this benchmark asks for `/healthz` twenty times a second, each time over a new connection, as a probe does.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import os
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

import apsw

from benchmarks import _report
from benchmarks.http import ROTA, Place, find
from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

CONNECTIONS, READERS, PATTERNS, EVENTS, AT_MOST_MS = 8, 300, 50, 20_000, 100.0
HOME = {"host": "far/1", "hostname": "far", "pid": 7, "version": "1"}
STARS = [f"queue:{'*:' * 90}{n}:*" for n in range(PATTERNS)]
MORE_EVENTS = """WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO event (at, actor, facts) SELECT at, actor, facts FROM n, (SELECT * FROM event WHERE facts LIKE '%"add"%'
ORDER BY id DESC LIMIT 1)"""


class Attack:
    """Requests, and connections that stay open; `adds` so many jobs a second are brought meanwhile."""

    def __init__(self, requests: list[bytes], streams: list[bytes], adds: int = 0) -> None:
        self.requests = requests
        self.streams = streams
        self.adds = adds


def attacks(place: Place, orchestrator: int) -> dict[str, Attack]:
    def get(path: str) -> bytes:
        return place._bytes(f"GET {path}")

    def post(path: str, body: object) -> bytes:
        text = json.dumps(body)
        return place._bytes(f"POST {path}", f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n", text)

    log, own = "/api/v1/events/log?after=0&limit=1000", f"/api/v1/orchestrators/{orchestrator}"
    slots = {f"queue-{n}-{'x' * 50}": 0 for n in range(1000)}
    topics = [f"queue:q{n}:*:{n}:jobs" for n in range(PATTERNS)]
    return {
        "nothing": Attack([], []),
        "topics of many stars": Attack([get(f"{log}&topics={'&topics='.join(STARS)}")], []),
        "log, topic of nobody": Attack([get(f"{log}&topics=queue:nobody:jobs")], []),
        "big slots body": Attack([post(f"{own}/slots", {"pools": slots})], []),
        "slots of 1,000 queues, too many": Attack([post(f"{own}/slots", {"pools": dict.fromkeys(slots, 1000)})], []),
        "300 readers of 50 topics": Attack(
            [], [get(f"/api/v1/events?topics={'&topics='.join(topics)}")] * READERS, adds=100
        ),
        "300 bells": Attack([], [get(f"{own}/bell")] * READERS, adds=100),
        "bells opened again and again": Attack([get(f"{own}/bell")], [], adds=100),
    }


async def keep_asking(place: Place, request: bytes, until: float, statuses: dict[int, int]) -> None:
    """One connection; where the answer is a stream, it is closed at once and opened again."""
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection(place.host, place.port, limit=1 << 24)
        try:
            while time.monotonic() < until:
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                status = int(head.split()[1])
                statuses[status] = statuses.get(status, 0) + 1
                if b"content-length:" not in head:
                    break
                await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def keep_open(place: Place, request: bytes, statuses: dict[int, int]) -> None:
    reader, writer = await asyncio.open_connection(place.host, place.port, limit=1 << 24)
    writer.write(request)
    try:
        status = int((await reader.readuntil(b"\r\n\r\n")).split()[1])
        statuses[status] = statuses.get(status, 0) + 1
        while await reader.read(1 << 16):
            pass
    finally:
        writer.close()


async def play(place: Place, attack: Attack, seconds: float) -> dict[int, int]:
    statuses: dict[int, int] = {}
    open_ones = [asyncio.create_task(keep_open(place, request, statuses)) for request in attack.streams]
    until = time.monotonic() + seconds
    asking = [keep_asking(place, each, until, statuses) for each in attack.requests for _ in range(CONNECTIONS)]
    if attack.adds:
        asking.append(keep_adding(place, attack.adds, until))
    await asyncio.gather(*asking, asyncio.sleep(seconds))
    for task in open_ones:
        task.cancel()
    return statuses


async def keep_adding(place: Place, rate: int, until: float) -> None:
    reader, writer = await asyncio.open_connection(place.host, place.port)
    while time.monotonic() < until:
        writer.write(place.requests["add"])
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]))
        await asyncio.sleep(1 / rate)
    writer.close()


def attack_it(place: Place, attack: Attack, seconds: float, answer: Callable[[dict[int, int]], None]) -> None:
    answer(asyncio.run(play(place, attack, seconds)))


def probe(place: Place, seconds: float) -> list[float]:
    """Milliseconds of each `/healthz`."""
    took, until = list[float](), time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        connection = http.client.HTTPConnection(place.host, place.port, timeout=60)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        took.append((time.perf_counter() - began) * 1e3)
        connection.close()
        time.sleep(0.05)
    return took


def under(place: Place, attack: Attack, seconds: float) -> tuple[list[float], dict[int, int]]:
    """What probes cost while the attack goes on, from a second after its beginning."""
    answers: multiprocessing.Queue[dict[int, int]] = multiprocessing.Queue()
    attacker = multiprocessing.Process(target=attack_it, args=(place, attack, seconds + 2, answers.put))
    attacker.start()
    time.sleep(1)
    took = probe(place, seconds)
    statuses = answers.get(timeout=120)
    attacker.join()
    return took, statuses


def prepare(folder: str) -> int:
    """A log of many events, and an orchestrator of the token's own; its number."""
    path = os.path.join(folder, ".rota", "rota.db")
    with open_store(path, Settings()) as store:
        store.jobs.add_many([NewJob(f"job {n}", queue=f"q{n % 50}") for n in range(100)])
        connection = apsw.Connection(path)
        connection.set_busy_timeout(30_000)
        connection.execute(MORE_EVENTS, (EVENTS,))
        connection.close()
        return store.orchestrators.join("far")


def run(folder: str, seconds: float, only: str | None) -> list[dict[str, _report.Cell]]:
    place, _ = find(folder)
    table = []
    for name, attack in attacks(place, prepare(folder)).items():
        if only is None or only in name:
            took, statuses = under(place, attack, seconds)
            answers = " ".join(f"{status}:{count}" for status, count in sorted(statuses.items()))
            table.append(row(name, took, answers))
    return table


def row(name: str, took: list[float], answers: str) -> dict[str, _report.Cell]:
    p50, p99 = _report.median(took), _report.percentile(took, 0.99)
    figures = {"probes": len(took), "p50 ms": p50, "p99 ms": p99, "max ms": max(took)}
    return {"beside": name, **figures, "met": max(took) < AT_MOST_MS, "answers": answers}


def main() -> None:
    parser = _report.arguments("How soon /healthz answers beside requests that are cheap to ask.")
    parser.add_argument("--seconds", type=float, default=8, help="how long each")
    parser.add_argument("--only", help="those with this in their names")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        environment = {**os.environ, "ROTA_HTTP_PORT": "0"}
        subprocess.run([ROTA, "init", "."], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        words = [ROTA, "orchestrator", "start", "--pool", "idle=1"]
        with subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.DEVNULL) as orchestrator:
            try:
                table = run(folder, options.seconds, options.only)
            finally:
                orchestrator.terminate()
    _report.show(f"hostile: /healthz, target below {AT_MOST_MS:g} ms", table, options.json)


if __name__ == "__main__":
    main()
