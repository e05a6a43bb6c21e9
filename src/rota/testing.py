"""For tests of applications: work off a queue in the calling process, with the real store and real claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.claim import Failed
from rota.core.errors import NothingReady
from rota.worker.handler import run

if TYPE_CHECKING:
    from rota.app import App
    from rota.core.claim import Outcome
    from rota.core.job import Job


def work_off(app: App, queue: str | None = None, most: int = 10_000) -> list[Job]:
    """Run every job that is ready, and those that become ready by it, one after another; the jobs as they ended.

    Jobs whose time has not come are left. A job that fails waits for its retry like any other.
    """
    worker = app.workers.register("work_off", queue=queue)
    ended: list[Job] = []
    try:
        while len(ended) < most:
            try:
                claim = app.claims.take(worker.id, queue)
            except NothingReady:
                break
            app.claims.settle(claim, _outcome(app, app.jobs.get(claim.job_id)))
            ended.append(app.jobs.get(claim.job_id))
    finally:
        app.workers.deregister(worker.id)
    return ended


def _outcome(app: App, job: Job) -> Outcome:
    task = app.tasks.get(job.kind)
    if task is None:
        known = ", ".join(sorted(app.tasks)) or "none"
        return Failed(f"there is no task {job.kind!r} in this app; known: {known}", again=False)
    return run(task.function, job.payload_json)
