"""A thousand registered workers send heartbeats to one SQLite file, or ten thousand to PostgreSQL, beside claims.

    ./dev bench beats            `--store postgres` on PostgreSQL

The workers are simulated: each is a row with a heartbeat every 30 s, and a few processes send them, evenly spread. With
`--faster 5` an interval takes 6 s instead of 30: the same heartbeats at five times the rate. One is missed when it is
committed more than one (shortened) interval after it was due. Meanwhile exchanges of 50 jobs are timed, first without
heartbeats and then with them.
"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks import _report, _stores
from benchmarks.depth import Claimer
from rota.core.times import SECOND
from rota.settings import Settings
from rota.store.open import open_store

MANY = {"sqlite": 1_000, "postgres": 10_000}
FASTER = {"sqlite": 5.0, "postgres": 1.0}
EVERY, CLIENTS, READY = 30.0, 2, 5_000
CLAIMS_RATIO = 1.5


def send_heartbeats(url: str, workers: int, interval: float, intervals: int) -> None:
    """Be one client: register its share of workers, send heartbeats when they are due, print how late they were."""
    late = []
    with open_store(url, Settings()) as store:
        ids = [store.workers.register(f"simulated-{n}", every=int(EVERY * SECOND)).id for n in range(workers)]
        for id in ids:  # to register so many takes a while: the first may have been taken for dead by now
            store.workers.heartbeat(id)
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.monotonic()
        for n in range(workers * intervals):
            due = began + n * interval / workers
            time.sleep(max(0.0, due - time.monotonic()))
            store.workers.heartbeat(ids[n % workers])
            late.append(time.monotonic() - due)
        print(" ".join(f"{seconds * 1e3:.2f}" for seconds in late), flush=True)


def measure(url: str, workers: int, interval: float, intervals: int) -> dict[str, list[float]]:
    """Return how late the heartbeats were, and the times of exchanges before and beside them, in milliseconds."""
    open_store(url, Settings(), make=True).close()
    words = [sys.executable, "-m", "benchmarks.heartbeats", "--as-client", url]
    words += [str(workers // CLIENTS), str(interval), str(intervals)]
    clients = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(CLIENTS)
    ]
    for client in clients:
        assert client.stdout is not None
        while client.stdout.readline() != "ready\n":
            assert client.poll() is None, "a client ended"
    claimer = Claimer(url)  # only now: to register so many may take longer than a lease
    claimer.put_back(READY)
    alone = [_paced(claimer) for _ in range(60)]
    for client in clients:
        assert client.stdin is not None
        client.stdin.write("go\n")
        client.stdin.flush()
    beside, until = [], time.monotonic() + interval * intervals
    while time.monotonic() < until:
        beside.append(_paced(claimer))
        if len(beside) % 50 == 0:
            claimer.renew()
    late = [float(ms) for client in clients for ms in client.communicate()[0].split()]
    claimer.close()
    return {"late": late, "alone": alone, "beside": beside}


def _paced(claimer: Claimer) -> float:
    """Time one exchange, and pause, so that claims are not what the heartbeats wait for."""
    took = claimer.exchange() * 1e3
    time.sleep(0.03)
    return took


def main() -> None:
    if sys.argv[1:2] == ["--as-client"]:
        send_heartbeats(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
        return
    parser = _report.arguments("Many registered workers send heartbeats beside claims.")
    _stores.add_option(parser)
    parser.add_argument("--workers", type=int, default=None, help="how many are registered")
    parser.add_argument("--faster", type=float, default=None, help="by how much an interval of 30 s is shortened")
    options = parser.parse_args()
    workers, faster = options.workers or MANY[options.store], options.faster or FASTER[options.store]
    interval = EVERY / faster
    with _stores.stores(options.store) as fresh:
        url = fresh()
        times = measure(url, workers, interval, options.rounds or 1)
        with open_store(url, Settings()) as store:
            dead = sum(worker.name.startswith("simulated") for worker in store.workers.list()) - workers
    missed = sum(ms > interval * 1e3 for ms in times["late"])
    ratio = _report.median(times["beside"]) / _report.median(times["alone"])
    what: list[tuple[str, float, str, bool | None]] = [
        ("beats a second", workers / interval, "", None),
        ("beat late by, p99 ms", _report.percentile(times["late"], 0.99), "", None),
        ("missed beats", float(missed), "0", not missed),
        ("workers taken for dead", float(-dead), "0", not dead),
        ("exchange of 50, p50 ms, without", _report.median(times["alone"]), "", None),
        ("exchange of 50, p50 ms, beside", _report.median(times["beside"]), "", None),
        ("ratio", ratio, f"<= {CLAIMS_RATIO}", ratio <= CLAIMS_RATIO),
    ]
    table: list[dict[str, _report.Cell]] = [
        {"what": name, "measured": value, "target": target, "met": met} for name, value, target, met in what
    ]
    title = f"beats on {options.store}: {workers:,} workers, a beat every {EVERY:g} s played {faster:g} times as fast"
    _report.show(title, table, options.json)


if __name__ == "__main__":
    main()
