"""Where the time of a job goes: processor time by process, while a crew works off a full queue of no-op jobs.

    ./dev bench where            `--store postgres` on PostgreSQL

The crew is up before the queue is opened, so no start of a process counts. Processor time moves less than a rate does
on a machine that others use too.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from benchmarks import _report, _stores
from benchmarks.crew import crew
from rota.lab.bench.measured_crew import new_job, wait_until_done
from rota.lab.chaos import crew_processes
from rota.lab.chaos.handlers import QUEUE
from rota.store.postgres.database import PostgresDatabase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.lab.chaos.lab_crew import LabCrew
    from rota.store.store import Store

    Times = tuple[float, float]  # in all, and of it in the system

JOBS, WORKERS = 60_000, 2
ALL, SYSTEM = 0, 1
_TICK = os.sysconf("SC_CLK_TCK")


def processes(made: LabCrew, store: Store) -> dict[str, list[int]]:
    """Who takes part, by what they are. Whoever measures does not."""
    main = made.main.pid or 0
    found = {"orchestrator": [main], "workers": [pid for pid in crew_processes.marked(made.mark) if pid != main]}
    if isinstance(store.database, PostgresDatabase):
        session = store.database.session.connection
        rows = session.execute("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()").fetchall()
        found["server"] = [pid for (pid,) in rows]
    return found


def spent(pids: Iterable[int]) -> Times:
    """Seconds of processor that these have used."""
    fields = []
    for pid in pids:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields.append(file.read().rpartition(b")")[2].split())
    user, kernel = (sum(int(each[column]) for each in fields) / _TICK for column in (11, 12))
    return user + kernel, kernel


def measure(kind: str, jobs: int) -> tuple[dict[str, Times], float]:
    """What each kind of process used, and how many seconds passed."""
    with crew(kind, WORKERS) as (made, store):
        store.jobs.wait(store.jobs.add_many([new_job("noop", n=0)] * WORKERS * 4), "done", 60_000_000)
        store.queues.pause(QUEUE)
        store.jobs.add_many([new_job("noop", n=n) for n in range(jobs)])
        who = processes(made, store)
        before, began = {name: spent(pids) for name, pids in who.items()}, time.monotonic()
        store.queues.resume(QUEUE)
        wait_until_done(store, jobs + WORKERS * 4)
        took = time.monotonic() - began
        after = {name: spent(pids) for name, pids in who.items()}
    return {name: (after[name][0] - before[name][0], after[name][1] - before[name][1]) for name in who}, took


def main() -> None:
    parser = _report.arguments("Where the time of a job goes, by process.")
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many are worked off")
    _stores.add_option(parser)
    options = parser.parse_args()
    rounds = [measure(options.store, options.jobs) for _ in range(options.rounds or 1)]
    each = 1e6 / options.jobs
    names = [*rounds[0][0]]

    def cost(name: str, part: int) -> float:
        return _report.median([used[name][part] * each for used, _ in rounds])

    table: list[dict[str, _report.Cell]] = [
        {"process": name, "µs per job": cost(name, ALL), "of it in the system": cost(name, SYSTEM)} for name in names
    ]
    whole = [sum(cost(name, part) for name in names) for part in (ALL, SYSTEM)]
    table.append({"process": "all", "µs per job": whole[0], "of it in the system": whole[1]})
    busy = _report.median([sum(times[ALL] for times in used.values()) / took for used, took in rounds])
    title = (
        f"where on {options.store}: processor time of no-op jobs, {WORKERS} workers, {busy:.1f} processors kept busy"
    )
    _report.show(title, table, options.json)


if __name__ == "__main__":
    main()
