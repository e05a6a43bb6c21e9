"""What a crew does while its PostgreSQL server crashes, or while every connection is ended again and again.

    ./dev bench outage

A crew of four works off a full queue of 5 ms jobs. The server is ended as `pg_ctl stop -m immediate` does it and
started again; the rate of commits is compared with the one before, from two seconds after it accepts connections. Then
all connections of the crew are ended five times a second for ten seconds.
"""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING

import psycopg

from benchmarks import _report
from benchmarks._targets import CRASHED, CUT
from rota.core.job import NewJob
from rota.demo.postgres_server import own_server
from rota.lab.bench.measured_crew import APP
from rota.lab.chaos.handlers import QUEUE
from rota.lab.chaos.lab_crew import LabCrew
from rota.lab.chaos.plan import single_crew

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.demo.postgres_server import OwnServer

    Row = dict[str, _report.Cell]

JOBS, MS, WORKERS = 40_000, 5, 4
STEADY, SETTLED, CUT_EVERY, CUT_FOR = 5.0, 2.0, 0.2, 10.0
NAME = "rota-bench-crew"
_CUT = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{NAME}'"


class Load:
    """A crew at work, and how many jobs it had committed at any moment."""

    def __init__(self, server: OwnServer, schema: str) -> None:
        self._server = server
        self._done = f"SELECT count(*) FROM {schema}.run WHERE verb = 'finish'"

    def done(self) -> int:
        with psycopg.connect(self._server.url) as connection:
            row = connection.execute(self._done.encode()).fetchone()
            return int(row[0]) if row else 0

    def rate(self, seconds: float) -> float:
        """Commits a second from now on, for so long."""
        before, began = self.done(), time.monotonic()
        time.sleep(seconds)
        return (self.done() - before) / (time.monotonic() - began)

    def crash(self) -> None:
        self._server.crash()
        self._server.start()

    def rate_amid_cuts(self) -> float:
        """Commits a second while connections are ended."""
        before, began = self.done(), time.monotonic()
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            while time.monotonic() - began < CUT_FOR:
                connection.execute(_CUT)
                time.sleep(CUT_EVERY)
        return (self.done() - before) / (time.monotonic() - began)


def measure() -> Iterator[Row]:
    with own_server({"max_connections": "50"}) as server, tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        crew = LabCrew(folder, single_crew(**{QUEUE: WORKERS}), APP, {}, url=server.url, PGAPPNAME=NAME)
        store = crew.open()
        try:
            store.jobs.add_many([NewJob("sleep", QUEUE, "sleep", {"ms": MS})] * JOBS)
            crew.start()
            assert crew.wait_until_whole(store), "the crew did not come up"
            load = Load(server, crew.schema or "")
            time.sleep(1)
            steady = load.rate(STEADY)
            load.crash()
            time.sleep(SETTLED)
            after = load.rate(STEADY)
            yield _row(CRASHED, after, steady, 0.95)
            yield _row(CUT, load.rate_amid_cuts(), steady, 0.9)
        finally:
            store.close()
            crew.close()


def _row(what: str, rate: float, steady: float, target: float) -> Row:
    share = rate / steady
    return {
        "what": what,
        "jobs/s": rate,
        "before": steady,
        "ratio": share,
        "target": f">= {target}",
        "met": share >= target,
    }


def main() -> None:
    options = _report.arguments("Throughput through crashes of the server and lost connections.").parse_args()
    _report.show("outage", [row for _ in range(options.rounds or 1) for row in measure()], options.json)


if __name__ == "__main__":
    main()
