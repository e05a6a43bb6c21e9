"""Measurements of a whole crew: jobs per second, how soon a job begins, and how soon a killed worker is replaced."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.core.job import NewJob
from rota.lab.chaos.handlers import QUEUE
from rota.lab.chaos.injector import strike
from rota.lab.chaos.lab_crew import LabCrew
from rota.lab.chaos.ledger_reader import LedgerReader
from rota.lab.chaos.plan import KILL_BUSY, single_crew

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.lab.chaos.ledger_reader import Life
    from rota.store.store import Store

APP = "rota.lab.bench.tasks:app"
MINUTE = 60_000_000
EDGE = 1000  # more jobs than the windows of a crew hold
KILLED_CREW = 4  # workers


@contextmanager
def crew(folder: str, url: str | None, workers: int, jobs: Sequence[NewJob] = ()) -> Iterator[tuple[LabCrew, Store]]:
    """Start a crew over a queue that was filled before, and yield it once it is up."""
    lab_crew = LabCrew(folder, single_crew(**{QUEUE: workers}), APP, {}, url=url)
    try:
        with lab_crew.open() as store:
            if jobs:
                store.jobs.add_many(jobs)
            lab_crew.start()
            assert lab_crew.wait_until_whole(store), "the crew did not come up"
            yield lab_crew, store
    finally:
        lab_crew.close()
        if lab_crew.schema is not None:
            lab_crew.remove()


def noop_rate(folder: str, url: str | None, workers: int, jobs: int) -> float:
    """Return jobs per second, from the first to the last commit."""
    with crew(folder, url, workers, [new_job("noop", n=n) for n in range(jobs)]) as (_, store):
        wait_until_done(store, jobs)
        first, last = finished(store)
        return jobs * 1e6 / (last - first)


def pickups(folder: str, url: str | None, times: int) -> list[float]:
    """Return milliseconds from before an enqueue to the handler's start, one job at a time on an idle crew."""
    times_ms = []
    with crew(folder, url, 2) as (_, store):
        for n in range(times + 10):
            time.sleep(0.005 + n % 7 / 1000)
            began = time.monotonic_ns()
            (id,) = store.jobs.add_many([new_job("moment")])
            time.sleep(0.03)  # polling while the job runs would slow it down
            (job,) = store.jobs.wait([id], "done", MINUTE)
            times_ms.append((job.result - began) / 1e6)
    return times_ms[10:]  # without the warm-up


def new_job(kind: str, **payload: object) -> NewJob:
    return NewJob(kind, QUEUE, kind, payload or None)


def wait_until_done(store: Store, jobs: int) -> None:
    """Wait until that many jobs are done. Poll rarely, because polling takes processor time from the crew."""
    while True:
        counts = next((status.counts for status in store.queues.list() if status.queue.name == QUEUE), {})
        if counts.get("done") == jobs:
            return
        assert not counts.get("failed"), "a job failed"
        time.sleep(0.05)


def finished(store: Store) -> tuple[int, int]:
    """Return when the first and the last job were committed; the order of jobs is broken by a window or two at most."""
    last = store.jobs.list("done", limit=EDGE)
    first = store.jobs.list("done", limit=EDGE, before=EDGE + 1)
    return min(job.finished_at or 0 for job in first), max(job.finished_at or 0 for job in last)


class Killer:
    """Kills busy workers, and reads in the ledger when their jobs began again."""

    def __init__(self, crew: LabCrew, store: Store) -> None:
        self._crew = crew
        self._store = store
        self._reader = LedgerReader(crew.ledger_path)
        self.again: list[float] = []
        self.refilled: list[float] = []
        self.ids: list[int] = []
        self._hit: set[int] = set()

    def feed(self, jobs: int, ms: int) -> None:
        """Keep this many jobs of this length in the queue."""
        counts = next((status.counts for status in self._store.queues.list() if status.queue.name == QUEUE), {})
        missing = jobs - counts.get("ready", 0) - counts.get("active", 0)
        if missing > 0:
            new = NewJob("sleep", QUEUE, "work", {"ms": ms}, max_attempts=1000)
            self.ids += self._store.jobs.add_many([new] * missing)

    def kill(self, jobs: int, ms: int) -> None:
        """Kill one worker of a whole crew, and wait for the recovery."""
        self.feed(jobs, ms)
        life = self._busy_one(jobs, ms)
        if not strike(self._crew, self._store, KILL_BUSY, life, signal.SIGKILL):
            return
        while life.gone_at is None:
            self._reader.read_on()
        at = life.faults[-1].at
        if life.current is not None:
            self._hit.add(life.current.job)
            self.again.append(self._wait_for_start(life) - at / 1000)
        self.refilled.append(self._wait_for_life(life) - at / 1000)

    def _busy_one(self, jobs: int, ms: int) -> Life:
        """Return a worker that runs a job that was not hit before, once the whole crew is up."""
        while True:
            ledger = self._reader.read_on()
            lives = ledger.living.values()
            busy = [life for life in lives if life.current is not None and life.current.job not in self._hit]
            if len(ledger.living) == KILLED_CREW and busy:
                return busy[len(ledger.faults) % len(busy)]
            self.feed(jobs, ms)
            time.sleep(0.001)

    def _wait_for_start(self, life: Life) -> float:
        assert life.current is not None
        while True:
            for execution in reversed(self._reader.read_on().executions):
                if execution.job == life.current.job and execution.token > life.current.token:
                    assert execution.worker != life.worker
                    return execution.started_at / 1000
            time.sleep(0.001)

    def _wait_for_life(self, life: Life) -> float:
        while True:
            ledger = self._reader.read_on()
            if len(ledger.living) == KILLED_CREW and ledger.lives[-1].up_at > (life.gone_at or 0):
                return ledger.lives[-1].up_at / 1000
            time.sleep(0.001)

    def close(self) -> None:
        self._reader.close()


def kill_workers(folder: str, url: str | None, kills: int, jobs: int, ms: int) -> tuple[list[float], list[float], bool]:
    """Return milliseconds to the next start and to the next life, and whether every job was settled once."""
    crew = LabCrew(folder, single_crew(**{QUEUE: KILLED_CREW}), url=url)
    try:
        with crew.open() as store:
            crew.start()
            assert crew.wait_until_whole(store), "the crew did not come up"
            killer = Killer(crew, store)
            while len(killer.again) < kills:  # some jobs end between the choice of the worker and the signal
                killer.kill(jobs, ms)
            once = _settled_once(store, killer.ids)
            killer.close()
            crew.stop()
            return killer.again, killer.refilled, once
    finally:
        crew.close()
        if crew.schema is not None:
            crew.remove()


def _settled_once(store: Store, ids: Sequence[int]) -> bool:
    """Return whether every job is done, by a single commit each."""
    for start in range(0, len(ids), 100):
        for job in store.jobs.wait(ids[start : start + 100], "done", MINUTE):
            if [run.verb for run in store.claims.runs(job.id)].count("finish") != 1:
                return False
    return True
