"""What a crew costs: jobs a second, pickup, overhead, memory, idle CPU, and how long a stop takes.

    ./dev bench crew

No-op jobs are counted from the first to the last `done` of a queue that was filled before the crew was started; beside
them one writer with bare workers, which writes the same rows. Everything is durable before it counts.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

from benchmarks import _bare, _report
from rota.chaos import system
from rota.chaos.app import QUEUE
from rota.chaos.crew import Crew
from rota.core.job import NewJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.store import Store

    Row = dict[str, _report.Cell]

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOBS, PICKUPS = 20_000, 300
IDLE_SECONDS = 30.0
WANTED_PER_SECOND = 20_000


@contextmanager
def crew(workers: int, jobs: list[NewJob] | None = None) -> Iterator[tuple[Crew, Store]]:
    """A crew that is up, over a queue that was filled before it was started."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        made = Crew(folder, {QUEUE: workers}, "benchmarks._tasks:app", {}, PYTHONPATH=ROOT)
        store = made.open()
        try:
            if jobs:
                store.jobs.add_many(jobs)
            made.start()
            assert made.wait_until_whole(store), "the crew did not come up"
            yield made, store
        finally:
            store.close()
            made.close()


def noop_rate(workers: int) -> float:
    """Jobs a second, from the first to the last commit."""
    with crew(workers, [_job("noop", n=n) for n in range(JOBS)]) as (made, store):
        _wait_until_done(store, JOBS)
        first, last = _finished(made)
        return JOBS * 1e6 / (last - first)


def pickups() -> list[float]:
    """Milliseconds from before the enqueue to the handler's start, one job at a time on an idle crew."""
    found = []
    with crew(2) as (_, store):
        for n in range(PICKUPS + 10):
            time.sleep(0.005 + n % 7 / 1000)
            began = time.monotonic_ns()
            (id,) = store.jobs.add_many([_job("moment")])
            time.sleep(0.03)  # a look while the job is under way would be in its way
            (job,) = store.jobs.wait([id], "done", 60_000_000)
            found.append((job.result - began) / 1e6)
    return found[10:]


def span(workers: int, jobs: int, ms: int) -> float:
    """Seconds from the enqueue of so many jobs to the last commit, by a crew that was idle."""
    with crew(workers) as (made, store):
        store.jobs.wait(store.jobs.add_many([_job("noop", n=n) for n in range(workers * 4)]), "done", 60_000_000)
        store.jobs.add_many([_job("sleep", ms=ms)] * jobs)
        began = store.now()
        _wait_until_done(store, jobs + workers * 4)
        return (_finished(made)[1] - began) / 1e6


def memory() -> tuple[float, float]:
    """Resident megabytes of the orchestrator, and of its largest worker, after a few thousand jobs."""
    with crew(4, [_job("noop", n=n) for n in range(4000)]) as (made, store):
        _wait_until_done(store, 4000)
        rest = [_resident(pid) for pid in system.marked(made.mark) if pid != made.pid]
        return _resident(made.pid or 0), max(rest)


def idle_cpu(workers: int, seconds: float) -> float:
    """Percent of one core that a crew takes in all while there is nothing to do."""
    with crew(workers) as (made, _):
        time.sleep(2)  # starting up is over
        pids = system.marked(made.mark)
        before, began = sum(map(_cpu, pids)), time.monotonic()
        time.sleep(seconds)
        return 100 * (sum(map(_cpu, pids)) - before) / (time.monotonic() - began)


def stop_seconds(ms: int | None) -> float:
    """How long a stop takes, idle or with jobs of this length in hand."""
    with crew(4) as (made, store):
        if ms is not None:
            store.jobs.add_many([_job("sleep", ms=ms)] * 12)
            while len(store.jobs.list("active")) < 4:
                time.sleep(0.01)
            time.sleep(0.2)
        took, code = made.stop()
        assert code == 0
        return took


def _job(kind: str, **payload: object) -> NewJob:
    return NewJob(kind, QUEUE, kind, payload or None)


def _wait_until_done(store: Store, jobs: int) -> None:
    """Look seldom: this program would otherwise take from the crew what it measures."""
    while True:
        counts = next((status.counts for status in store.queues.list() if status.queue.name == QUEUE), {})
        if counts.get("done") == jobs:
            return
        assert not counts.get("failed"), "a job failed"
        time.sleep(0.05)


def _finished(made: Crew) -> tuple[int, int]:
    connection = apsw.Connection(made.database, flags=apsw.SQLITE_OPEN_READONLY)
    ((first, last),) = connection.execute("SELECT min(finished_at), max(finished_at) FROM job").fetchall()
    connection.close()
    return int(str(first)), int(str(last))


def _resident(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _bare_drain(workers: int) -> float:
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        return _bare.drain(os.path.join(folder, "raw.db"), JOBS, workers)


def _bare_pickup() -> list[float]:
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        return _bare.pickup(os.path.join(folder, "raw.db"), PICKUPS)


def _row(what: str, rota: float, bare: float | None, target: str, met: bool | None) -> Row:
    ratio = None if bare is None else rota / bare
    return {"what": what, "rota": rota, "bare": bare, "ratio": ratio, "target": target, "met": met}


def _against_ideal(what: str, rota: float, ideal: float, target: str, met: bool | None) -> Row:
    """The ratio is to a figure that is computed, not measured: nothing stands under `bare`."""
    return {"what": what, "rota": rota, "bare": None, "ratio": rota / ideal, "target": target, "met": met}


def throughput(rounds: int) -> Iterator[Row]:
    best: list[tuple[float, float]] = []
    for workers in (1, 2, 4):
        pairs = [(noop_rate(workers), _bare_drain(workers)) for _ in range(rounds)]
        rota, bare = (_report.median(figures) for figures in zip(*pairs, strict=True))
        best.append((rota, bare))
        yield _row(f"no-op jobs/s, workers: {workers}", rota, bare, "", None)
    rota, bare = max(rota for rota, _ in best), max(bare for _, bare in best)
    met = rota >= WANTED_PER_SECOND and rota / bare >= 0.5
    yield _row("no-op jobs/s, the best of these", rota, bare, f">= {WANTED_PER_SECOND:,} and 0.5 of bare", met)


def latency() -> Iterator[Row]:
    rota, bare = pickups(), _bare_pickup()
    p50, bare_p50 = _report.median(rota), _report.median(bare)
    yield _row("pickup p50 ms", p50, bare_p50, "< 3 and 2 x bare", p50 < 3 and p50 / bare_p50 <= 2)
    yield _row("pickup p99 ms", _report.percentile(rota, 0.99), _report.percentile(bare, 0.99), "", None)


def overhead(rounds: int) -> Iterator[Row]:
    for ms, jobs in ((1, 2000), (10, 800), (100, 120)):
        ideal, took = jobs * ms / 4 / 1000, _report.median([span(4, jobs, ms) for _ in range(rounds)])
        yield _against_ideal(f"{jobs} jobs of {ms} ms, 4 workers: s", took, ideal, f"ideal {ideal:g}", None)
    times = _report.median([span(1, 60, 100) / span(3, 60, 100) for _ in range(rounds)])
    yield _against_ideal("3 workers against 1, 100 ms jobs", times, 3.0, ">= 2.9, ideal 3", times >= 2.9)


def cost(seconds: float, rounds: int) -> Iterator[Row]:
    orchestrator, worker = memory()
    yield _row("orchestrator, resident MB", orchestrator, None, "< 30", orchestrator < 30)
    yield _row("worker, resident MB", worker, None, "< 30", worker < 30)
    cpu = idle_cpu(10, seconds)
    yield _row("idle crew of 10, % of a core", cpu, None, "< 0.5", cpu < 0.5)
    idle = _report.median([stop_seconds(None) for _ in range(rounds)])
    yield _row("stop of an idle crew, s", idle, None, "< 1", idle < 1)
    busy = _report.median([stop_seconds(1000) for _ in range(rounds)])
    yield _row("stop amid 1 s jobs, s", busy, None, "< 3", busy < 3)


def main() -> None:
    parser = _report.arguments("What a crew costs, against bare processes that write the same rows.")
    parser.add_argument(
        "--idle", type=float, default=IDLE_SECONDS, help="for how many seconds the idle crew is watched"
    )
    options = parser.parse_args()
    rounds = options.rounds or 3
    table = [*throughput(rounds), *latency(), *overhead(rounds), *cost(options.idle, rounds)]
    _report.show("crew: real processes, synchronous=FULL, medians", table, options.json)


if __name__ == "__main__":
    main()
