"""How many bytes a job takes: in the queue, when it is done with its history, and in the log on the way.

    ./dev bench growth           `--store postgres` on PostgreSQL

Also what an exchange costs, in time and in the log of a server, which the simulation reckons with.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import psycopg

from benchmarks import _report, _stores
from benchmarks._fill import size_of
from rota.core.claim import Done
from rota.lab.bench import bare, store_rates
from rota.settings import Settings
from rota.store.claims.exchange import Idle, Report
from rota.store.jobs.enqueue import NewJob
from rota.store.open import open_store
from rota.store.postgres.connection import address

if TYPE_CHECKING:
    from rota.core.claim import Outcome
    from rota.store.store import Store

JOBS, BATCH, SYNCS = 20_000, 100, 200


def written(url: str) -> int:
    """How far the write-ahead log of a server has come."""
    with psycopg.connect(address(url).conninfo) as connection:
        row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
    return int(row[0]) if row else 0


def work_off(store: Store, jobs: int) -> tuple[int, float]:
    """Exchange until all is done: how many exchanges that took, and how many seconds."""
    id = store.orchestrators.join()
    worker = store.orchestrators.register_worker(id, "worker:q:0", "q")
    number, done, exchanges = 0, 0, 0
    outcomes: list[tuple[int, int, Outcome]] = []
    began = time.perf_counter()
    while done < jobs:
        answer = store.orchestrators.exchange(id, number, Report(outcomes, [Idle(worker, "q", BATCH)]))
        number, done, exchanges = answer.number, done + len(outcomes), exchanges + 1
        outcomes = [(claim.job_id, claim.token, Done("null")) for claim in answer.claims]
    return exchanges, time.perf_counter() - began


def measure(url: str, jobs: int) -> list[tuple[str, float]]:
    is_server = "://" in url
    with open_store(url, Settings(), make=True) as store:
        empty = _size(url)
        store.jobs.add_many(NewJob(f"job {n}", "q", "noop", store_rates.PAYLOAD) for n in range(jobs))
        full, before = _size(url), written(url) if is_server else 0
        exchanges, seconds = work_off(store, jobs)
        log = written(url) - before if is_server else os.path.getsize(f"{url}-wal")
        done = _size(url)
    return [
        ("bytes per job that waits", (full - empty) / jobs),
        ("bytes per job that is done, with its run and events", (done - empty) / jobs),
        (f"ms for an exchange of {BATCH}", seconds / exchanges * 1e3),
        (f"bytes of log per job, {BATCH} at once", log / jobs) if is_server else ("largest log, MB", log / 1e6),
        ("fsync of a page, ms", _report.median(_syncs())),
    ]


def _syncs() -> list[float]:
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        return bare.sync_times(folder, SYNCS)


def _size(url: str) -> int:
    """With all that is still in the log of a file."""
    if "://" in url:
        return size_of(url)
    with closing(apsw.Connection(url)) as connection:
        return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))


def main() -> None:
    parser = _report.arguments("How many bytes a job takes.")
    _stores.add_option(parser)
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many jobs")
    options = parser.parse_args()
    samples: dict[str, list[float]] = {}
    for _ in range(options.rounds or 1):
        with _stores.stores(options.store) as fresh:
            for name, value in measure(fresh(), options.jobs):
                samples.setdefault(name, []).append(value)
    table: list[dict[str, _report.Cell]] = [
        {"what": name, "measured": _report.median(found)} for name, found in samples.items()
    ]
    _report.show(f"growth on {options.store}: {options.jobs:,} jobs with a payload of 30 bytes", table, options.json)


if __name__ == "__main__":
    main()
