"""How much of a queue's rate a crew reaches, and how evenly, with one orchestrator and with three on one database.

    ./dev bench rates            10, 50, 200 and 1,000 jobs a second; `--store postgres` measures PostgreSQL

The crews are up before the queue is filled. A rate lets jobs that are late by up to 0.1 s start at once; this
burst at the beginning is not counted.
"""

from __future__ import annotations

import tempfile
from collections import Counter

from benchmarks import _report, _stores
from rota.lab.bench.measured_crew import APP, new_job, wait_until_done
from rota.lab.chaos.handlers import QUEUE
from rota.lab.chaos.lab_crew import LabCrew
from rota.lab.chaos.plan import Shape
from tests.support.stores import rows

RATES = (10, 50, 200, 1000)
ORCHESTRATORS = (1, 3)
WORKERS, SECONDS, TOLERANCE = 2, 8, 0.1
SECOND, SETTLED = 1_000_000, 1  # the first whole second is that of the start


def measure(url: str | None, rate: int, orchestrators: int) -> tuple[float, float, float]:
    """Return the jobs per second in the whole seconds after the first, and the least and the most of any of them."""
    shape = Shape({f"crew{number}": {QUEUE: WORKERS} for number in range(orchestrators)})
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        crew = LabCrew(folder, shape, APP, {}, url=url)
        try:
            with crew.open() as store:
                store.queues.set(QUEUE, rate=f"{rate}/s")
                crew.start()
                assert crew.wait_until_whole(store), "the crews did not come up"
                jobs = rate * SECONDS
                store.jobs.add_many([new_job("noop", n=n) for n in range(jobs)])
                wait_until_done(store, jobs)
                started = sorted(at for (at,) in rows(store, "SELECT claimed_at FROM run"))
        finally:
            crew.close()
            if crew.schema is not None:
                crew.remove()
    begin = started[0] + SETTLED * SECOND
    seconds = Counter((at - begin) // SECOND for at in started if at >= begin)
    whole = [seconds[second] for second in range((started[-1] - begin) // SECOND)]
    return sum(whole) / len(whole), min(whole), max(whole)


def main() -> None:
    parser = _report.arguments("How much of a queue's rate a crew reaches.")
    _stores.add_option(parser)
    options = parser.parse_args()
    table: list[dict[str, _report.Cell]] = []
    with _stores.stores(options.store) as fresh:
        url = fresh().partition("?")[0] if options.store == "postgres" else None
        for rate in RATES:
            for orchestrators in ORCHESTRATORS:
                mean, least, most = measure(url, rate, orchestrators)
                table.append(
                    {
                        "rate": rate,
                        "orchestrators": orchestrators,
                        "jobs/s": mean,
                        "of the rate": mean / rate,
                        "worst second": least / rate,
                        "best second": most / rate,
                        "met": abs(mean / rate - 1) <= TOLERANCE,
                    }
                )
    _report.show(f"rates of a queue, {options.store}", table, options.json)


if __name__ == "__main__":
    main()
