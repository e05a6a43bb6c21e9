"""What a crew costs: jobs a second, pickup, overhead, memory, idle CPU, and how long a stop takes.

    ./dev bench crew             on SQLite; `./dev bench crew --store postgres` on PostgreSQL

No-op jobs are counted from the first to the last `done` of a queue that was filled before the crew was started; beside
them one writer with bare workers, which writes the same rows (on PostgreSQL with no workers, a hundred jobs in one
statement). Everything is durable before it counts.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks import _report, _stores
from rota.lab.bench import bare, measured_crew, store_rates
from rota.lab.bench.measured_crew import finished, new_job, wait_until_done
from rota.lab.chaos import crew_processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.core.job import NewJob
    from rota.lab.chaos.lab_crew import LabCrew
    from rota.store.store import Store

    Row = dict[str, _report.Cell]

JOBS, PICKUPS = 20_000, 300
IDLE_SECONDS = 30.0
WANTED_PER_SECOND = {"sqlite": 20_000, "postgres": 10_000}
SHARE_OF_BARE = {"sqlite": 0.5, "postgres": 0.4}
PICKUP_MS = {"sqlite": 3, "postgres": 6}


@contextmanager
def crew(kind: str, workers: int, jobs: Sequence[NewJob] = ()) -> Iterator[tuple[LabCrew, Store]]:
    """A crew that is up, over a queue that was filled before it was started."""
    with place(kind) as (folder, url), measured_crew.crew(folder, url, workers, jobs) as made:
        yield made


@contextmanager
def place(kind: str) -> Iterator[tuple[str, str | None]]:
    """A folder, and where the database is if not in there."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder, _stores.stores(kind) as fresh:
        yield folder, fresh() if kind == "postgres" else None


def noop_rate(kind: str, workers: int) -> float:
    with place(kind) as (folder, url):
        return measured_crew.noop_rate(folder, url, workers, JOBS)


def pickups(kind: str) -> list[float]:
    with place(kind) as (folder, url):
        return measured_crew.pickups(folder, url, PICKUPS)


def span(kind: str, workers: int, jobs: int, ms: int) -> float:
    """Seconds from the enqueue of so many jobs to the last commit, by a crew that was idle."""
    with crew(kind, workers) as (_, store):
        store.jobs.wait(store.jobs.add_many([new_job("noop", n=n) for n in range(workers * 4)]), "done", 60_000_000)
        store.jobs.add_many([new_job("sleep", ms=ms)] * jobs)
        began = store.now()
        wait_until_done(store, jobs + workers * 4)
        return (finished(store)[1] - began) / 1e6


def fairness(kind: str, jobs: int, ms: int) -> float:
    """How many jobs the worker with the fewest had, of what the one with the most had."""
    with crew(kind, 4) as (_, store):
        store.jobs.add_many([new_job("sleep", ms=ms)] * jobs)
        wait_until_done(store, jobs)
        counts = Counter(job.worker_id for job in store.jobs.list("done", limit=jobs))
        return min(counts.values()) / max(counts.values()) if len(counts) == 4 else 0.0


def memory(kind: str) -> tuple[float, float]:
    """Resident megabytes of the orchestrator, and of its largest worker, after a few thousand jobs."""
    with crew(kind, 4, [new_job("noop", n=n) for n in range(4000)]) as (made, store):
        wait_until_done(store, 4000)
        rest = [_resident(pid) for pid in crew_processes.marked(made.mark) if pid != made.main.pid]
        return _resident(made.main.pid or 0), max(rest)


def idle_cpu(kind: str, workers: int, seconds: float) -> float:
    """Percent of one core that a crew takes in all while there is nothing to do."""
    with crew(kind, workers) as (made, _):
        time.sleep(2)  # starting up is over
        pids = crew_processes.marked(made.mark)
        before, began = sum(map(_cpu, pids)), time.monotonic()
        time.sleep(seconds)
        return 100 * (sum(map(_cpu, pids)) - before) / (time.monotonic() - began)


def stop_seconds(kind: str, ms: int | None) -> float:
    """How long a stop takes, idle or with jobs of this length in hand."""
    with crew(kind, 4) as (made, store):
        if ms is not None:
            store.jobs.add_many([new_job("sleep", ms=ms)] * 12)
            while len(store.jobs.list("active")) < 4:
                time.sleep(0.01)
            time.sleep(0.2)
        took, code = made.stop()
        assert code == 0
        return took


def _resident(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _bare_drain(kind: str, workers: int) -> float:
    if kind == "postgres":
        with _stores.stores(kind) as fresh:
            return store_rates.drain_raw(fresh(), 100, JOBS)
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        return bare.drain(os.path.join(folder, "raw.db"), JOBS, workers)


def _bare_pickup() -> list[float]:
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        return bare.pickup(os.path.join(folder, "raw.db"), PICKUPS)


def _row(what: str, rota: float, beside: float | None, target: str, met: bool | None) -> Row:
    ratio = None if beside is None else rota / beside
    return {"what": what, "rota": rota, "bare": beside, "ratio": ratio, "target": target, "met": met}


def _against_ideal(what: str, rota: float, ideal: float, target: str, met: bool | None) -> Row:
    """The ratio is to a figure that is computed, not measured: nothing stands under `bare`."""
    return {"what": what, "rota": rota, "bare": None, "ratio": rota / ideal, "target": target, "met": met}


def throughput(kind: str, rounds: int) -> Iterator[Row]:
    best: list[tuple[float, float]] = []
    for workers in (1, 2, 4):
        pairs = [(noop_rate(kind, workers), _bare_drain(kind, workers)) for _ in range(rounds)]
        rota, beside = (_report.median(figures) for figures in zip(*pairs, strict=True))
        best.append((rota, beside))
        yield _row(f"no-op jobs/s, workers: {workers}", rota, beside, "", None)
    rota, beside = max(rota for rota, _ in best), max(beside for _, beside in best)
    wanted, share = WANTED_PER_SECOND[kind], SHARE_OF_BARE[kind]
    met = rota >= wanted and rota / beside >= share
    yield _row("no-op jobs/s, the best of these", rota, beside, f">= {wanted:,} and {share} of bare", met)


def latency(kind: str, rounds: int) -> Iterator[Row]:
    """Before anything else: what a drain has written goes to the disk for a while after it."""
    runs, limit = [pickups(kind) for _ in range(rounds)], PICKUP_MS[kind]
    p50, p99 = (_report.median([_report.percentile(run, share) for run in runs]) for share in (0.5, 0.99))
    if kind == "postgres":
        yield _row("pickup p50 ms", p50, None, f"< {limit}", p50 < limit)
        yield _row("pickup p99 ms", p99, None, "", None)
        return
    beside = _bare_pickup()
    bare_p50 = _report.median(beside)
    yield _row("pickup p50 ms", p50, bare_p50, f"< {limit} and 2 x bare", p50 < limit and p50 / bare_p50 <= 2)
    yield _row("pickup p99 ms", p99, _report.percentile(beside, 0.99), "", None)


def overhead(kind: str, rounds: int) -> Iterator[Row]:
    for ms, jobs in ((1, 2000), (10, 800), (100, 120)):
        ideal, took = jobs * ms / 4 / 1000, _report.median([span(kind, 4, jobs, ms) for _ in range(rounds)])
        yield _against_ideal(f"{jobs} jobs of {ms} ms, 4 workers: s", took, ideal, f"ideal {ideal:g}", None)
    share = _report.median([fairness(kind, 400, 10) for _ in range(rounds)])
    yield _against_ideal("fewest jobs of 4 workers, of the most, 10 ms jobs", share, 1.0, "ideal 1", None)
    times = _report.median([span(kind, 1, 60, 100) / span(kind, 3, 60, 100) for _ in range(rounds)])
    yield _against_ideal("3 workers against 1, 100 ms jobs", times, 3.0, ">= 2.9, ideal 3", times >= 2.9)


def cost(kind: str, seconds: float, rounds: int) -> Iterator[Row]:
    orchestrator, worker = memory(kind)
    small = orchestrator < 30 if kind == "sqlite" else None  # psycopg alone takes more than SQLite
    yield _row("orchestrator, resident MB", orchestrator, None, "" if small is None else "< 30", small)
    yield _row("worker, resident MB", worker, None, "< 30", worker < 30)
    cpu = idle_cpu(kind, 10, seconds)
    yield _row("idle crew of 10, % of a core", cpu, None, "< 0.5", cpu < 0.5)
    idle = _report.median([stop_seconds(kind, None) for _ in range(rounds)])
    yield _row("stop of an idle crew, s", idle, None, "< 1", idle < 1)
    busy = _report.median([stop_seconds(kind, 1000) for _ in range(rounds)])
    yield _row("stop amid 1 s jobs, s", busy, None, "< 3", busy < 3)


def main() -> None:
    parser = _report.arguments("What a crew costs, against bare processes that write the same rows.")
    parser.add_argument(
        "--idle", type=float, default=IDLE_SECONDS, help="for how many seconds the idle crew is watched"
    )
    _stores.add_option(parser)
    options = parser.parse_args()
    rounds, kind = options.rounds or 3, options.store
    table = [
        *latency(kind, rounds),
        *throughput(kind, rounds),
        *overhead(kind, rounds),
        *cost(kind, options.idle, rounds),
    ]
    _report.show(f"crew on {kind}: real processes, every commit on the disk, medians", table, options.json)


if __name__ == "__main__":
    main()
