"""How long a job waits at half load: jobs of 10 ms for two workers, which arrive at random, a hundred a second.

    ./dev bench load             on SQLite; `--store postgres` on PostgreSQL

Some wait because both workers are busy, however fast a system is. So beside it stands what the very same arrivals would
have waited with two workers that cost nothing.
"""

from __future__ import annotations

import heapq
import random
import time
from typing import TYPE_CHECKING

from benchmarks import _report, _stores
from benchmarks.crew import crew
from rota.lab.bench.measured_crew import MINUTE, new_job

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKERS, MS, PER_SECOND = 2, 10, 100
SEED = 7


def arrivals(jobs: int, per_second: float, seed: int = SEED) -> list[float]:
    """Seconds from the start at which each job comes, at random."""
    draw, at, found = random.Random(seed), 0.0, []
    for _ in range(jobs):
        at += draw.expovariate(per_second)
        found.append(at)
    return found


def ideal_waits(came: Sequence[float], workers: int, seconds: float) -> list[float]:
    """What each would wait for one of so many workers, each of them busy for so long with a job, in order."""
    free, waits = [0.0] * workers, []
    for at in came:
        begins = max(at, heapq.heappop(free))
        heapq.heappush(free, begins + seconds)
        waits.append(begins - at)
    return waits


def measure(kind: str, jobs: int) -> tuple[list[float], list[float]]:
    """Milliseconds from before the enqueue to the handler's start, and when each was added, in seconds."""
    with crew(kind, WORKERS) as (_, store):
        store.jobs.wait(store.jobs.add_many([new_job("begun", ms=MS)] * 8), "done", MINUTE)
        began, added, ids = time.monotonic_ns(), [], []
        for due in arrivals(jobs, PER_SECOND):
            time.sleep(max(0.0, due - (time.monotonic_ns() - began) / 1e9))
            added.append(time.monotonic_ns())
            ids += store.jobs.add_many([new_job("begun", ms=MS)])
        done = [
            job for start in range(0, jobs, 100) for job in store.jobs.wait(ids[start : start + 100], "done", MINUTE)
        ]
    starts = {job.id: job.result for job in done}
    waits = [(starts[id] - at) / 1e6 for id, at in zip(ids, added, strict=True)]
    return waits, [(at - began) / 1e9 for at in added]


def main() -> None:
    parser = _report.arguments("How long a job waits at half load.")
    _stores.add_option(parser)
    parser.add_argument("--jobs", type=int, default=1500, help="how many jobs arrive")
    options = parser.parse_args()
    waits, ideal = list[float](), list[float]()
    for _ in range(options.rounds or 1):
        found, came = measure(options.store, options.jobs)
        waits += found
        ideal += [seconds * 1e3 for seconds in ideal_waits(came, WORKERS, MS / 1e3)]
    table: list[dict[str, _report.Cell]] = [
        {
            "pickup at half load, ms": name,
            "rota": _report.percentile(waits, share),
            "ideal": _report.percentile(ideal, share),
            "on top": _report.percentile(waits, share) - _report.percentile(ideal, share),
        }
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    ]
    title = (
        f"load on {options.store}: {len(waits):,} jobs of {MS} ms, {PER_SECOND} a second at random, {WORKERS} workers"
    )
    _report.show(title, table, options.json)


if __name__ == "__main__":
    main()
