"""Run the jobs of a queue in the calling process, with the real store and real claims."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from rota import documents
from rota.core.claim import Failed
from rota.core.errors import NothingReady
from rota.core.frames import assignment
from rota.core.job import DONE
from rota.core.jsontext import Raw
from rota.core.times import SECOND
from rota.testing.stores import declare
from rota.worker.capture import Folder
from rota.worker.command import Commands
from rota.worker.context import Context
from rota.worker.handler import run, run_coroutine, wants_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.app import App
    from rota.core.claim import Claim, Outcome
    from rota.core.frames.assignment import RunJob
    from rota.core.job import Job


def work_off(app: App, queue: str | None = None, most: int = 10_000) -> list[Job]:
    """Run every job that is ready, and those that become ready by it, one after another.

    Jobs that are not due yet are left; scheduled jobs are added when they are due by the store's clock. A job that
    fails waits for its retry like any other. As in a worker, the setup of each queue runs once, before its first job.

    Args:
        app: The application whose tasks run.
        queue: Whose jobs to run; None for those of all queues.
        most: End after so many jobs.

    Returns:
        The jobs as they ended.
    """
    declare(app)
    worker = app.workers.register("work_off", queue=queue)
    ended: list[Job] = []
    prepared: set[str] = set()
    loop = asyncio.Runner()
    try:
        while len(ended) < most:
            try:
                claim = app.claims.take(worker.id, queue)
            except NothingReady:
                break
            job = app.jobs.get(claim.job_id)
            if job.queue not in prepared:
                app.prepare(job.queue, loop.run)
                prepared.add(job.queue)
            app.claims.settle(claim, _settled(app, job, claim, loop))
            ended.append(app.jobs.get_or(job.replace(status=DONE)))
    finally:
        loop.close()
        app.workers.deregister(worker.id)
    return ended


def _settled(app: App, job: Job, claim: Claim, loop: asyncio.Runner) -> Outcome:
    deadline = None if job.timeout is None else time.monotonic() + job.timeout / SECOND
    run_job = assignment.of_claim(job, claim, app.claims.runs(job.id), deadline)
    run_job.whole = documents.job(job)
    folder = Folder(app.store.database.runs, app.settings.capture_limit * 1_000_000)
    return outcome_of(app, run_job, StoredClaim(app, claim), loop, folder)


def outcome_of(app: App, job: RunJob, link: LocalClaim, loop: asyncio.Runner, folder: Folder) -> Outcome:
    """Run the handler of a job, a function, a coroutine or a command; return its outcome."""
    task = app.tasks.get(job.kind)
    if task is None:
        known = ", ".join(app.declarations()["tasks"]) or "none"
        return Failed(f"there is no task {job.kind!r} in this app; known: {known}", again=False)
    if task.command is not None:
        return Commands(link, folder, link.database or "").run(task.command, job)
    context = Context(job, link, app.context) if wants_context(task.function) else None
    if task.is_coroutine:
        return loop.run(run_coroutine(task.function, job.payload, context))
    return run(task.function, job.payload, context)


class LocalClaim:
    """What a handler's context needs of a claim, without a store: calls are recorded.

    `database` is the store of its job, if there is one.
    """

    def __init__(self, worker_id: str, database: str | None, checkpoint: str | None = None) -> None:
        self.worker_id = worker_id
        self.database = database
        self.folder = os.getcwd()
        self.stopping = False
        self.lost = False
        self.recovering: float | None = None
        self.cancels: dict[int, Callable[[], None]] = {}
        self.sessions: set[int] = set()
        self.logs: list[str] = []
        self.progress_calls: list[tuple[float, float | None, str | None]] = []
        self.checkpoint = checkpoint

    def renew(self, job: RunJob) -> None:
        """Do nothing: nobody else can take the claim."""

    def log(self, job: RunJob, text: str) -> None:
        self.logs.append(text)

    def progress(self, job: RunJob, done: float, total: float | None, note: str | None) -> None:
        self.progress_calls.append((done, total, note))

    def save_checkpoint(self, job: RunJob, checkpoint: str) -> None:
        self.checkpoint = checkpoint

    def recover(self, seconds: float | None) -> None:
        self.recovering = seconds


class StoredClaim(LocalClaim):
    """A claim in the store: checkpoints and renewals go there, and log lines are printed."""

    def __init__(self, app: App, claim: Claim) -> None:
        super().__init__(claim.worker_id, app.store.database.url)
        self._app = app
        self._claim = claim

    def renew(self, job: RunJob) -> None:
        self._app.claims.renew(self._claim)

    def log(self, job: RunJob, text: str) -> None:
        print(f"{self._claim.run_id} {text}")

    def save_checkpoint(self, job: RunJob, checkpoint: str) -> None:
        self._app.claims.checkpoint(self._claim, Raw(checkpoint))
