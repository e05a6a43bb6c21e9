"""Measurements of a whole crew: jobs per second, and how soon a job begins."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.core.job import NewJob
from rota.lab.chaos.handlers import QUEUE
from rota.lab.chaos.lab_crew import LabCrew
from rota.lab.chaos.plan import single_crew

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.store.store import Store

APP = "rota.lab.bench.tasks:app"
MINUTE = 60_000_000
EDGE = 1000  # more jobs than the windows of a crew hold


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
