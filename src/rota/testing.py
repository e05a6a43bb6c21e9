"""For tests of applications: work off a queue in the calling process, with the real store and real claims."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rota import wire
from rota.core.claim import Failed
from rota.core.errors import NothingReady
from rota.core.job import DONE
from rota.core.jsontext import Raw
from rota.core.times import SECOND
from rota.worker import byhand
from rota.worker.capture import Folder
from rota.worker.command import Commands
from rota.worker.context import Context
from rota.worker.handler import run, run_coroutine, wants_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rota.app import App
    from rota.core.claim import Claim, Outcome
    from rota.core.job import Job


def work_off(app: App, queue: str | None = None, most: int = 10_000) -> list[Job]:
    """Run every job that is ready, and those that become ready by it, one after another; the jobs as they ended.

    Jobs whose time has not come are left. A job that fails waits for its retry like any other. As in a worker's life,
    the setup of each queue runs once, before its first job.
    """
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
            app.claims.settle(claim, _outcome(app, job, claim, loop))
            ended.append(app.jobs.get_or(job.but(status=DONE)))
    finally:
        loop.close()
        app.workers.deregister(worker.id)
    return ended


def _outcome(app: App, job: Job, claim: Claim, loop: asyncio.Runner) -> Outcome:
    task = app.tasks.get(job.kind)
    if task is None:
        known = ", ".join(app.declarations()["tasks"]) or "none"
        return Failed(f"there is no task {job.kind!r} in this app; known: {known}", again=False)
    deadline = None if job.timeout is None else time.monotonic() + job.timeout / SECOND
    handed, by_hand = byhand.handed(job, claim, app.claims.runs(job.id), deadline), ByHand(app, claim)
    if task.command is not None:
        database = app.store.database
        kept = Folder(database.runs, app.settings.capture_limit * 1_000_000)
        return Commands(by_hand, kept, database.url).run(task.command, {**handed, "whole": wire.job(job)})
    context = Context(handed, by_hand, app.context) if wants_context(task.function) else None
    if task.is_coroutine:
        return loop.run(run_coroutine(task.function, job.payload_json, context))
    return run(task.function, job.payload_json, context)


class ByHand:
    """A claim by hand in place of a pipe: what the handler says goes straight to the store, or is printed."""

    def __init__(self, app: App, claim: Claim) -> None:
        self._app = app
        self._claim = claim
        self.worker_id = claim.worker_id
        self.database: str | None = app.store.database.url
        self.stopping = False
        self.lost = False
        self.recovering: float | None = None
        self.cancels: dict[int, Callable[[], None]] = {}
        self.sessions: set[int] = set()

    def renew(self, job: Mapping[str, Any]) -> None:
        self._app.claims.renew(self._claim)

    def log(self, job: Mapping[str, Any], text: str) -> None:
        print(f"{self._claim.run_id} {text}")

    def progress(self, job: Mapping[str, Any], done: float, total: float | None, note: str | None) -> None:
        """Nobody watches."""

    def keep(self, job: Mapping[str, Any], checkpoint: str) -> None:
        self._app.claims.checkpoint(self._claim, Raw(checkpoint))

    def recover(self, seconds: float | None) -> None:
        self.recovering = seconds
