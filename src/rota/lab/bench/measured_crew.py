"""What a whole crew does: jobs a second, and how soon one begins."""

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
_EDGE = 1000  # more than the windows of a crew hold


@contextmanager
def crew(folder: str, url: str | None, workers: int, jobs: Sequence[NewJob] = ()) -> Iterator[tuple[LabCrew, Store]]:
    """A crew that is up, over a queue that was filled before it was started."""
    made = LabCrew(folder, single_crew(**{QUEUE: workers}), APP, {}, url=url)
    try:
        with made.open() as store:
            if jobs:
                store.jobs.add_many(jobs)
            made.start()
            assert made.wait_until_whole(store), "the crew did not come up"
            yield made, store
    finally:
        made.close()
        if made.schema is not None:
            made.remove()


def noop_rate(folder: str, url: str | None, workers: int, jobs: int) -> float:
    """Jobs a second, from the first to the last commit."""
    with crew(folder, url, workers, [new_job("noop", n=n) for n in range(jobs)]) as (_, store):
        wait_until_done(store, jobs)
        first, last = finished(store)
        return jobs * 1e6 / (last - first)


def pickups(folder: str, url: str | None, times: int) -> list[float]:
    """Milliseconds from before the enqueue to the handler's start, one job at a time on an idle crew."""
    found = []
    with crew(folder, url, 2) as (_, store):
        for n in range(times + 10):
            time.sleep(0.005 + n % 7 / 1000)
            began = time.monotonic_ns()
            (id,) = store.jobs.add_many([new_job("moment")])
            time.sleep(0.03)  # a look while the job is under way would be in its way
            (job,) = store.jobs.wait([id], "done", MINUTE)
            found.append((job.result - began) / 1e6)
    return found[10:]


def new_job(kind: str, **payload: object) -> NewJob:
    return NewJob(kind, QUEUE, kind, payload or None)


def wait_until_done(store: Store, jobs: int) -> None:
    """Look seldom: this program would otherwise take from the crew what it measures."""
    while True:
        counts = next((status.counts for status in store.queues.list() if status.queue.name == QUEUE), {})
        if counts.get("done") == jobs:
            return
        assert not counts.get("failed"), "a job failed"
        time.sleep(0.05)


def finished(store: Store) -> tuple[int, int]:
    """When the first and the last job of a queue was committed; jobs are taken in order but for a window or two."""
    last = store.jobs.list("done", limit=_EDGE)
    first = store.jobs.list("done", limit=_EDGE, before=_EDGE + 1)
    return min(job.finished_at or 0 for job in first), max(job.finished_at or 0 for job in last)
