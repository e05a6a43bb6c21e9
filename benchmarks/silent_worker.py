"""How long until the job of a registered worker that falls silent runs again, on a crew that has nothing else to do.

    ./dev bench unseen           heartbeats every 5 s and every 30 s, side by side: a minute

The worker sends one heartbeat after it has claimed, and no more. Measured is from that heartbeat to the start.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks import _report
from rota.core.times import SECOND
from rota.lab.bench.measured_crew import APP, MINUTE, new_job
from rota.lab.chaos.handlers import QUEUE
from rota.lab.chaos.lab_crew import LabCrew
from rota.lab.chaos.plan import single_crew

TARGETS = {5: 12.0, 30: 62.0}


def measure(every: int) -> float:
    """Return seconds from the last heartbeat to the job's start in a worker of a crew."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        crew = LabCrew(folder, single_crew(**{QUEUE: 1}), APP, {})
        store = crew.open()
        try:
            (id,) = store.jobs.add_many([new_job("moment")])
            worker = store.workers.register("silent", every=every * SECOND).id
            store.claims.take(worker, QUEUE)
            store.workers.heartbeat(worker)
            last = time.monotonic_ns()
            crew.start()
            (job,) = store.jobs.wait([id], "done", 3 * MINUTE)
            return float(job.result - last) / 1e9
        finally:
            store.close()
            crew.close()


def main() -> None:
    options = _report.arguments("From a dead registered worker's last heartbeat to its job's next start.").parse_args()
    with ThreadPoolExecutor(len(TARGETS)) as pool:
        runs = {every: [pool.submit(measure, every) for _ in range(options.rounds or 1)] for every in TARGETS}
    table: list[dict[str, _report.Cell]] = []
    for every, futures in runs.items():
        worst = max(future.result() for future in futures)
        target = TARGETS[every]
        table.append({"beats every, s": every, "runs again after, s": worst, "target": target, "met": worst < target})
    _report.show("unseen: a registered worker falls silent with a job in hand", table, options.json)


if __name__ == "__main__":
    main()
