"""A long life: steady load on a crew whose workers are killed all the while, and a look at everything that could grow.

./dev soak                           six minutes on SQLite
./dev soak --minutes 60 --store both an hour on each database, at once
./dev soak --store postgres --json FILE
./dev soak --minutes 60 --docs       write it into docs/reliability.md

One worker of each kind is never killed, so that it could grow old, and is the one that is measured. What is old is
forgotten by `rota prune`, as a schedule of yours would do it. The exit code is 1 when anything is not flat or a job was
lost.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks import _report
from benchmarks.__main__ import ROOT, machine, save
from benchmarks.reliability import flat
from benchmarks.reliability.chaos import publish
from benchmarks.reliability.samples import Sampler
from benchmarks.reliability.soak_app import SPEAK
from rota.core import job as jobs
from rota.core.job import NewJob
from rota.core.version import __version__
from rota.lab.chaos.injector import SIGNALS, clock, strike
from rota.lab.chaos.lab_crew import LabCrew
from rota.lab.chaos.ledger_reader import LedgerReader
from rota.lab.chaos.plan import COMMANDS, FAR, FUNCTIONS, KILL_BUSY, MAIN, REMOTE, WORK, Shape
from rota.lab.chaos.snapshot import every_job
from rota.lab.percentiles import percentile
from tests.support.postgres import server

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.lab.chaos.ledger_reader import Life
    from rota.store.store import Store

APP = "benchmarks.reliability.soak_app:app"
SHAPE = Shape({MAIN: {FUNCTIONS: 3, COMMANDS: 2}, FAR: {REMOTE: 2}}, behind_api=(FAR,))
SERVED = (FUNCTIONS, COMMANDS, REMOTE)
# Whose job comes when, of every forty. Two commands come together, so that no worker has them all.
TURNS = {0: REMOTE, 5: COMMANDS, 6: COMMANDS, 10: REMOTE, 20: REMOTE, 30: REMOTE}
STORES, BOTH = ("sqlite", "postgres"), "both"
PACE = ("minutes", "rate", "churn")
TICK, SAMPLES, WORK_OFF_WITHIN = 0.1, 36, 120.0


class Soak:
    """Feeds a crew, kills its workers, prunes what is old, and takes samples, each at its own pace."""

    def __init__(self, crew: LabCrew, store: Store, options: argparse.Namespace) -> None:
        self._crew = crew
        self._store = store
        self._options = options
        self._span = options.minutes * 60
        self._keep = max(2.0, self._span / 12)  # so that there is something to forget from early on
        self._reader = LedgerReader(crew.ledger_path)
        self._sampler = Sampler(crew, options.url)
        self._offered: dict[int, tuple[str, int]] = {}
        self._executions_read = 0
        self._put_off = 0.0
        self._forgotten = 0
        self._spared: dict[str, Life] = {}
        self.kills = 0
        self.samples: list[dict[str, float]] = []

    def run(self) -> None:
        """The whole of it, until every job has come to its end, or should have."""
        self._spared = self._first()
        began = time.monotonic()
        due = {self._kill: self._options.churn, self._forget: self._keep / 2, self._sample: self._span / SAMPLES}
        next_at = {what: began + every for what, every in due.items()}
        while (now := time.monotonic()) < began + self._span:
            self._offer(int((now - began) * self._options.rate) - self.jobs)
            for what, every in due.items():
                if now >= next_at[what] and what():
                    next_at[what] += every
            time.sleep(max(0.0, now + TICK - time.monotonic()))
        _wait_for(lambda: not self.lost and not self.astray, WORK_OFF_WITHIN)

    def close(self) -> None:
        self._reader.close()

    @property
    def jobs(self) -> int:
        return len(self._offered)

    @property
    def lost(self) -> int:
        """How many jobs have not run through, by the ledger."""
        done = {execution.job for execution in self._reader.read_on().executions if execution.outcome == "done"}
        return len(self._offered.keys() - done)

    @property
    def astray(self) -> int:
        """How many jobs the store has not brought to their end, or not kept until they were forgotten."""
        return astray(self._store, self.jobs, self._forgotten)

    def captures_left(self) -> int:
        """How many files of captures are there once every job is forgotten."""
        self._forget(older=0)
        return self._sampler.captures

    @property
    def old(self) -> dict[str, int | None]:
        """How many jobs each worker that was spared has begun, by queue; None: it has died all the same."""
        ledger = self._reader.read_on()
        begun = Counter(execution.worker for execution in ledger.executions)
        spared = {queue: life.worker for queue, life in self._spared.items()}
        return {queue: begun[worker] if worker in ledger.living else None for queue, worker in spared.items()}

    def _first(self) -> dict[str, Life]:
        """The worker in the first slot of each kind, which is the first to be given work; once the ledger has it."""

        def first() -> dict[str, Life]:
            lives = sorted(self._reader.read_on().living.values(), key=lambda life: life.slot, reverse=True)
            return {life.queue: life for life in lives}

        _wait_for(lambda: first().keys() == set(SERVED), WORK_OFF_WITHIN)
        return first()

    def _offer(self, many: int) -> None:
        """Jobs of 5 ms; of forty, four are the remote crew's and two are commands. None is lost for three deaths."""
        if many < 1:
            return
        queues = [TURNS.get((self.jobs + n) % 40, FUNCTIONS) for n in range(many)]
        moment = clock()
        ids = self._store.jobs.add_many(
            [
                NewJob("soak", queue, SPEAK if queue == COMMANDS else WORK, {"ms": 5}, max_attempts=1000)
                for queue in queues
            ]
        )
        self._offered.update((id, (queue, moment)) for id, queue in zip(ids, queues, strict=True))

    def _kill(self) -> bool:
        """SIGKILL to the worker that has lived longest, but for those that are spared."""
        spared = {life.worker for life in self._spared.values()}
        lives = [life for life in self._reader.read_on().living.values() if life.worker not in spared]
        lives.sort(key=lambda life: life.up_at)
        if lives and strike(self._crew, self._store, KILL_BUSY, lives[0], SIGNALS[KILL_BUSY]):
            self.kills += 1
        return True

    def _forget(self, older: float | None = None) -> bool:
        keep = self._keep if older is None else older
        words = [sys.executable, "-m", "rota", "prune", "--older", f"{round(keep * 1000)}ms", "--json"]
        env = self._crew.environment
        answer = subprocess.run(words, cwd=self._crew.folder, env=env, stdout=subprocess.PIPE, check=True).stdout
        self._forgotten += json.loads(answer)["jobs"]
        return True

    def _sample(self) -> bool:
        """One sample of everything, put off while a worker is being replaced: to its crew each is some descriptors.

        A command tells that it runs when its interpreter is up: that is no pickup.
        """
        ledger = self._reader.read_on()
        if len(ledger.living) < self._crew.workers and self._put_off < self._span / SAMPLES:
            self._put_off += TICK
            return False
        self._put_off = 0.0
        sample = self._sampler.take(self._spared)
        begun = [
            (execution.started_at, *self._offered[execution.job])
            for execution in ledger.executions[self._executions_read :]
        ]
        self._executions_read = len(ledger.executions)
        if waits := [(at - moment) / 1000 for at, queue, moment in begun if queue != COMMANDS]:
            sample |= {"pickup, p50": percentile(waits, 0.5), "pickup, p99": percentile(waits, 0.99)}
        self.samples.append(sample)
        tell(self._options.store, f"{self.jobs:,} jobs, {self.kills} kills, {len(self.samples)} of {SAMPLES} samples")
        return True


def astray(store: Store, offered: int, forgotten: int) -> int:
    """How many of these jobs are not done by the store, or were neither forgotten nor are there."""
    left = [job.status for job in every_job(store)]
    return sum(status != jobs.DONE for status in left) + abs(offered - forgotten - len(left))


def _wait_for(condition: Callable[[], bool], within: float) -> None:
    deadline = time.monotonic() + within
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.2)


def soak(options: argparse.Namespace) -> dict[str, Any]:
    """Run it; one document."""
    run: dict[str, Any] = {"taken": datetime.now(UTC).strftime("%Y-%m-%d"), "machine": machine(), "rota": __version__}
    run |= {"store": options.store, "minutes": options.minutes, "rate": options.rate, "churn": options.churn}
    with ExitStack() as until_the_end:
        folder = until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="rota-soak-"))
        options.url = None
        if options.store == "postgres":
            options.url = until_the_end.enter_context(until_the_end.enter_context(server(durable=True)).database())
        crew = LabCrew(folder, SHAPE, APP, url=options.url, PYTHONPATH=ROOT)
        until_the_end.callback(crew.close)
        store = until_the_end.enter_context(crew.open())
        crew.start()
        if not crew.wait_until_whole(store):
            raise SystemExit(f"soak: the crew did not come up: see {crew.main.log}")
        soaking = Soak(crew, store, options)
        until_the_end.callback(soaking.close)
        soaking.run()
        run |= {"old": soaking.old}
        took, code = crew.stop()
        run |= {"jobs": soaking.jobs, "kills": soaking.kills, "lost": soaking.lost, "astray": soaking.astray}
        run |= {"captures_left": soaking.captures_left()}
        run |= {"stop_seconds": round(took, 2), "stop_code": code, "rule": flat.RULE}
        run |= {"rows": flat.judged(soaking.samples), "loads": flat.loads(soaking.samples)}
        run |= {"samples": soaking.samples}
    return run


def at_once(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A soak of each database, both at the same time, each by a program of its own."""
    with tempfile.TemporaryDirectory(prefix="rota-soak-") as folder:
        told = {store: os.path.join(folder, store) for store in STORES}
        words = [sys.executable, "-m", "benchmarks.reliability.soak"]
        words += [word for name in PACE for word in (f"--{name}", str(getattr(options, name)))]
        started = [
            subprocess.Popen([*words, "--store", store, "--json", path], cwd=ROOT, stdout=subprocess.DEVNULL)
            for store, path in told.items()
        ]
        for process in started:
            process.wait()
        return [_read(store, path) for store, path in told.items()]


def _read(store: str, path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            run: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        raise SystemExit(f"soak: that of {store} did not come to its end") from None
    return run


def is_good(run: dict[str, Any]) -> bool:
    """Whether nothing was lost, everything is flat, who was spared has grown old at work, and it stopped well."""
    gone_or_left = run["lost"], run["astray"], run["captures_left"]
    return (
        not any(gone_or_left)
        and all(run["old"].values())
        and run["stop_code"] == 0
        and all(row["flat"] for row in run["rows"])
    )


def tell(store: str, text: str) -> None:
    print(f"soak: {store}: {text}", file=sys.stderr, flush=True)


def show(run: dict[str, Any]) -> None:
    """The table and what else decides."""
    _report.show(f"soak: {run['minutes']:g} min on {run['store']}, {run['rate']:g} jobs/s", run["rows"], False)
    begun = ", ".join(f"{queue} {'DEAD' if n is None else format(n, ',')}" for queue, n in run["old"].items())
    print(
        f"\n{run['jobs']:,} jobs, {run['lost']} lost, {run['astray']} astray in the store,"
        f" {run['captures_left']} captures that were not forgotten;"
        f" {run['kills']} workers killed; stopped in {run['stop_seconds']} s"
    )
    print(f"jobs of the workers that were spared: {begun}")
    print(f"load of the machine in the three thirds: {', '.join(f'{load:g}' for load in run['loads'])}")
    print("flat, and nothing lost\n" if is_good(run) else "NOT all is flat, or something was lost\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev soak", description="Steady load for long: is everything flat?")
    parser.add_argument("--minutes", type=float, default=6.0, help="how long")
    parser.add_argument("--store", choices=(*STORES, BOTH), default="sqlite", help="which database")
    parser.add_argument("--rate", type=float, default=20.0, help="jobs a second")
    parser.add_argument("--churn", type=float, default=5.0, help="seconds between two kills of a worker")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there; of both, by their names")
    parser.add_argument("--docs", action="store_true", help="write docs/reliability.md")
    options = parser.parse_args()
    for name in PACE:
        if getattr(options, name) <= 0:
            parser.error(f"--{name} must be more than 0")
    runs = at_once(options) if options.store == BOTH else [soak(options)]
    save({f"soak {run['store']}": run for run in runs} if options.store == BOTH else runs[0], options.json)
    for run in runs:
        show(run)
    print(flat.RULE)
    for run in runs if options.docs else ():
        publish(f"soak {run['store']}", {name: part for name, part in run.items() if name != "samples"})
    return 0 if all(map(is_good, runs)) else 1


if __name__ == "__main__":
    sys.exit(main())
