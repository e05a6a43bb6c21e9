"""A long life: steady load on a crew whose workers are killed all the while, and a look at everything that could grow.

./dev soak                           six minutes on SQLite
./dev soak --minutes 60              an hour
./dev soak --store postgres --json FILE
./dev soak --minutes 60 --docs       write it into docs/reliability.md

What is old is forgotten by `rota prune`, as a schedule of yours would do it. The exit code is 1 when anything is not
flat or a job was lost.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks import _report
from benchmarks.__main__ import machine, save
from benchmarks.reliability import flat
from benchmarks.reliability.chaos import publish
from rota.bench.figures import percentile
from rota.chaos.book import Reader
from rota.chaos.crew import Crew
from rota.chaos.plan import FAR, FUNCTIONS, KILL_BUSY, MAIN, REMOTE, Shape
from rota.chaos.storm import SIGNALS, clock, strike
from rota.core.job import NewJob
from rota.core.version import __version__
from tests.support.postgres import server

if TYPE_CHECKING:
    from rota.store.store import Store

SHAPE = Shape({MAIN: {FUNCTIONS: 3}, FAR: {REMOTE: 1}}, behind_api=(FAR,))
TICK, LOOKS, WORK_OFF_WITHIN = 0.1, 36, 120.0
MB = 1e6
WAL = "SELECT sum(size) FROM pg_ls_waldir()"
SIZE = """SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r'"""


class Soak:
    """Feeds a crew, kills its workers, forgets what is old, and looks, each at its own pace."""

    def __init__(self, crew: Crew, store: Store, options: argparse.Namespace) -> None:
        self._crew = crew
        self._store = store
        self._options = options
        self._span = options.minutes * 60
        self._keep = max(2.0, self._span / 12)  # so that there is something to forget from early on
        self._reader = Reader(crew.ledger)
        self._offered: dict[int, int] = {}
        self._looked = 0
        self.kills = 0
        self.samples: list[dict[str, float]] = []

    def run(self) -> int:
        """The whole of it; how many jobs were lost."""
        began = time.monotonic()
        due = {self._kill: self._options.churn, self._forget: self._keep / 2, self._look: self._span / LOOKS}
        next_at = {what: began + every for what, every in due.items()}
        while (now := time.monotonic()) < began + self._span:
            self._offer(int((now - began) * self._options.rate) - self.jobs)
            for what, every in due.items():
                if now >= next_at[what]:
                    next_at[what] += every
                    what()
            time.sleep(max(0.0, now + TICK - time.monotonic()))
        return self._left()

    def close(self) -> None:
        self._reader.close()

    @property
    def jobs(self) -> int:
        return len(self._offered)

    def _offer(self, many: int) -> None:
        """Jobs of 5 ms; one in ten for the remote crew. None is lost for having cost three workers."""
        if many < 1:
            return
        queues = [REMOTE if (self.jobs + n) % 10 == 0 else FUNCTIONS for n in range(many)]
        moment = clock()
        ids = self._store.jobs.add_many(
            [NewJob("soak", queue, "work", {"ms": 5}, max_attempts=1000) for queue in queues]
        )
        self._offered.update(dict.fromkeys(ids, moment))

    def _kill(self) -> None:
        """SIGKILL to the worker that has lived longest: nobody grows old."""
        lives = sorted(self._reader.read_on().living.values(), key=lambda life: life.up_at)
        if lives and strike(self._crew, self._store, KILL_BUSY, lives[0], SIGNALS[KILL_BUSY]):
            self.kills += 1

    def _forget(self) -> None:
        words = [sys.executable, "-m", "rota", "prune", "--older", f"{round(self._keep * 1000)}ms"]
        env = self._crew.environment
        subprocess.run(words, cwd=self._crew.folder, env=env, stdout=subprocess.DEVNULL, check=True)

    def _look(self) -> None:
        """One sample of everything."""
        book = self._reader.read_on()
        workers = [life.pid for life in book.living.values()]
        waits = [each.started_at - self._offered[each.job] for each in book.executions[self._looked :]]
        self._looked = len(book.executions)
        database, wal = self._sizes()
        sample = {"database": database, "write-ahead log": wal, "load": os.getloadavg()[0]}
        watched: dict[str, list[int | None]] = {
            "the orchestrator": [self._crew.main.pid],
            "the remote orchestrator": [self._crew.orchestrators[FAR].pid],
            "the API": [self._crew.api.pid if self._crew.api else None],
            "a worker": [*workers],
        }
        for name, pids in watched.items():
            memory, open_files = _memory(pids), _descriptors(pids)
            sample |= {f"memory of {name}": max(memory)} if memory else {}
            sample |= {f"descriptors of {name}": max(open_files)} if open_files else {}
        if waits:
            ms = [wait / 1000 for wait in waits]
            sample |= {"pickup, p50": percentile(ms, 0.5), "pickup, p99": percentile(ms, 0.99)}
        self.samples.append(sample)
        tell(f"{self.jobs:,} jobs, {self.kills} kills, {len(self.samples)} of {LOOKS} looks")

    def _sizes(self) -> tuple[float, float]:
        """The database and its write-ahead log, in megabytes."""
        if self._crew.schema is None:
            return _size(self._crew.database), _size(f"{self._crew.database}-wal")
        with psycopg.connect(self._options.url) as connection:
            found = connection.execute(SIZE, [self._crew.schema]).fetchone(), connection.execute(WAL).fetchone()
        database, wal = (float(row[0] or 0) / MB if row else 0.0 for row in found)
        return database, wal

    def _left(self) -> int:
        """Wait until every job has run through, by the ledger; how many have not."""
        deadline = time.monotonic() + WORK_OFF_WITHIN
        while True:
            done = {each.job for each in self._reader.read_on().executions if each.outcome == "done"}
            left = len(self._offered.keys() - done)
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.2)


def _memory(pids: list[int | None]) -> list[float]:
    found = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                found += [int(line.split()[1]) * 1024 / MB for line in file if line.startswith("VmRSS")]
        except OSError:  # it has just gone
            pass
    return found


def _descriptors(pids: list[int | None]) -> list[int]:
    found = []
    for pid in pids:
        try:
            found.append(len(os.listdir(f"/proc/{pid}/fd")))
        except OSError:
            pass
    return found


def _size(path: str) -> float:
    return os.path.getsize(path) / MB if os.path.exists(path) else 0.0


def soak(options: argparse.Namespace) -> dict[str, Any]:
    """Run it; one document."""
    run: dict[str, Any] = {"taken": datetime.now(UTC).strftime("%Y-%m-%d"), "machine": machine(), "rota": __version__}
    run |= {"store": options.store, "minutes": options.minutes, "rate": options.rate, "churn": options.churn}
    with ExitStack() as until_the_end:
        folder = until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="rota-soak-"))
        options.url = None
        if options.store == "postgres":
            options.url = until_the_end.enter_context(until_the_end.enter_context(server(durable=True)).database())
        crew = Crew(folder, SHAPE, url=options.url)
        until_the_end.callback(crew.close)
        store = until_the_end.enter_context(crew.open())
        crew.start()
        if not crew.wait_until_whole(store):
            raise SystemExit(f"soak: the crew did not come up: see {crew.main.log}")
        soaking = Soak(crew, store, options)
        until_the_end.callback(soaking.close)
        lost = soaking.run()
        took, code = crew.stop()
        run |= {"jobs": soaking.jobs, "kills": soaking.kills, "lost": lost, "stop_seconds": round(took, 2)}
        run |= {"stop_code": code, "rows": flat.judged(soaking.samples), "loads": flat.loads(soaking.samples)}
        run |= {"samples": soaking.samples}
    return run


def is_good(run: dict[str, Any]) -> bool:
    """Whether nothing was lost, everything is flat, and it stopped well."""
    return not run["lost"] and run["stop_code"] == 0 and all(row["flat"] for row in run["rows"])


def tell(text: str) -> None:
    print(f"soak: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev soak", description="Steady load for long: is everything flat?")
    parser.add_argument("--minutes", type=float, default=6.0, help="how long")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite", help="which database")
    parser.add_argument("--rate", type=float, default=20.0, help="jobs a second")
    parser.add_argument("--churn", type=float, default=5.0, help="seconds between two kills of a worker")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there")
    parser.add_argument("--docs", action="store_true", help="write docs/reliability.md")
    options = parser.parse_args()
    for name in ("minutes", "rate", "churn"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name} must be more than 0")
    run = soak(options)
    save(run, options.json)
    _report.show(f"soak: {run['minutes']:g} min on {run['store']}, {run['rate']:g} jobs/s", run["rows"], False)
    print(f"\n{flat.RULE}")
    print(
        f"{run['jobs']:,} jobs, {run['lost']} lost; {run['kills']} workers killed; stopped in {run['stop_seconds']} s"
    )
    print(f"load of the machine in the three thirds: {', '.join(f'{load:g}' for load in run['loads'])}")
    print("flat, and nothing lost" if is_good(run) else "NOT all is flat, or something was lost")
    if options.docs:
        publish(f"soak {run['store']}", {name: part for name, part in run.items() if name != "samples"})
    return 0 if is_good(run) else 1


if __name__ == "__main__":
    sys.exit(main())
