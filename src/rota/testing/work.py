"""Working off a queue in the calling process, with the real store and real claims."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rota import documents
from rota.core.claim import Failed
from rota.core.errors import NothingReady
from rota.core.job import DONE
from rota.core.jsontext import Raw
from rota.core.times import SECOND
from rota.testing.hand import Hand
from rota.testing.temporary import declare
from rota.worker import claimed_job
from rota.worker.capture import Folder
from rota.worker.command import Commands
from rota.worker.context import Context
from rota.worker.handler import run, run_coroutine, wants_context

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rota.app import App
    from rota.core.claim import Claim, Outcome
    from rota.core.job import Job
    from rota.worker.job_state import Handed


def work_off(app: App, queue: str | None = None, most: int = 10_000) -> list[Job]:
    """Run every job that is ready, and those that become ready by it, one after another; the jobs as they ended.

    Jobs whose time has not come are left; what the app schedules is added when it is due by the store's clock. A job
    that fails waits for its retry like any other. As in a worker's life, the setup of each queue runs once, before its
    first job.
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
    handed = claimed_job.handed(job, claim, app.claims.runs(job.id), deadline)
    kept = Folder(app.store.database.runs, app.settings.capture_limit * 1_000_000)
    return outcome_of(app, {**handed, "whole": documents.job(job)}, ByHand(app, claim), loop, kept)


def outcome_of(app: App, handed: Handed, link: Hand, loop: asyncio.Runner, kept: Folder) -> Outcome:
    """Run the handler of a job here, whatever it is; what came of it."""
    kind, payload = handed["kind"], handed["payload"]
    task = app.tasks.get(kind)
    if task is None:
        known = ", ".join(app.declarations()["tasks"]) or "none"
        return Failed(f"there is no task {kind!r} in this app; known: {known}", again=False)
    if task.command is not None:
        return Commands(link, kept, link.database or "").run(task.command, handed)
    context = Context(handed, link, app.context) if wants_context(task.function) else None
    if task.is_coroutine:
        return loop.run(run_coroutine(task.function, payload, context))
    return run(task.function, payload, context)


class ByHand(Hand):
    """A claim by hand: what the handler keeps goes straight to the store, and what it says is printed."""

    def __init__(self, app: App, claim: Claim) -> None:
        super().__init__(claim.worker_id, app.store.database.url)
        self._app = app
        self._claim = claim

    def renew(self, job: Mapping[str, Any]) -> None:
        self._app.claims.renew(self._claim)

    def log(self, job: Mapping[str, Any], text: str) -> None:
        print(f"{self._claim.run_id} {text}")

    def keep(self, job: Mapping[str, Any], checkpoint: str) -> None:
        self._app.claims.checkpoint(self._claim, Raw(checkpoint))
