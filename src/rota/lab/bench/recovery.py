"""How long it takes, after a busy worker is killed, until its job runs again and its slot is filled again."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from rota.core.job import NewJob
from rota.lab.chaos.handlers import QUEUE
from rota.lab.chaos.injector import strike
from rota.lab.chaos.lab_crew import LabCrew
from rota.lab.chaos.ledger_reader import LedgerReader
from rota.lab.chaos.plan import KILL_BUSY, single_crew

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.lab.chaos.ledger_reader import Life
    from rota.store.store import Store

WORKERS = 4


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
            if len(ledger.living) == WORKERS and busy:
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
            if len(ledger.living) == WORKERS and ledger.lives[-1].up_at > (life.gone_at or 0):
                return ledger.lives[-1].up_at / 1000
            time.sleep(0.001)

    def close(self) -> None:
        self._reader.close()


def kill_workers(folder: str, url: str | None, kills: int, jobs: int, ms: int) -> tuple[list[float], list[float], bool]:
    """Return milliseconds to the next start and to the next life, and whether every job was settled once."""
    crew = LabCrew(folder, single_crew(**{QUEUE: WORKERS}), url=url)
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
    """Whether every job is done, by a single commit each."""
    for start in range(0, len(ids), 100):
        for job in store.jobs.wait(ids[start : start + 100], "done", 60_000_000):
            if [run.verb for run in store.claims.runs(job.id)].count("finish") != 1:
                return False
    return True
