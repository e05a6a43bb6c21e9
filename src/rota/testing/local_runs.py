"""Run handlers in the calling process: one of them without a store, or all jobs of a queue with real claims."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from copy import copy
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rota import documents
from rota.core.claim import Done, Failed, verb_of
from rota.core.errors import NothingReady
from rota.core.frames import assignment
from rota.core.frames.assignment import PreviousRun, RunJob
from rota.core.job import DONE
from rota.core.jsontext import Raw
from rota.core.record import Record
from rota.core.times import SECOND
from rota.store.jobs.payload import encode
from rota.testing.stores import declare
from rota.worker.capture import Folder
from rota.worker.command import Commands
from rota.worker.context import Context
from rota.worker.handler import run as run_function
from rota.worker.handler import run_coroutine, wants_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rota.app import App
    from rota.core.claim import Claim, Outcome
    from rota.core.job import Job, NewJob
    from rota.task import Task

P = ParamSpec("P")
R = TypeVar("R")
WORKER = "worker-00000000"


def run(task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Ran:
    """Call the handler of a task with these arguments, as a worker would for its first attempt.

    Arguments and result go through JSON, as they do in a store. The context knows the time-out; it is not enforced.

    Returns:
        What the run did; its `again()` is the next attempt.

    Example:
        >>> assert run(resize, "a.png", width=100).result == "a-100.png"
    """
    new = task.job(*args, **kwargs)
    job = RunJob(1, 1, new.kind, new.queue)
    job.title, job.payload, job.priority = new.title, encode(new.payload, "payload"), new.priority
    job.max_attempts = new.max_attempts or task.app.settings.max_attempts
    return _run(task.app, new, job)


class Ran(Record):
    """What one run of a handler did. `progress` are the calls of `ctx.progress`: done, total and note."""

    outcome: Outcome
    logs: list[str]
    progress: list[tuple[float, float | None, str | None]]
    checkpoint: Any
    again: Callable[[], Ran]

    @property
    def result(self) -> Any:
        """The handler's return value; asserts that it succeeded."""
        assert isinstance(self.outcome, Done), f"the handler did not succeed: {self.outcome}"
        return None if self.outcome.result is None else json.loads(self.outcome.result)

    @property
    def error(self) -> str | None:
        """Why the handler failed; None if it did not."""
        return getattr(self.outcome, "error", None)


def work_off(app: App, queue: str | None = None, most: int = 10_000) -> list[Job]:
    """Run every job that is ready, and those that become ready by it, one after another.

    Jobs that are not due yet are left; scheduled jobs are added when they are due by the store's clock. A job that
    fails waits for its retry like any other. As in a worker, the setup of each queue runs once, before its first job.

    Args:
        app: The application whose tasks run.
        queue: Whose jobs to run; None for those of all queues.
        most: The greatest number of jobs to run.

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
            app.claims.settle(claim, _run_claimed(app, job, claim, loop))
            # A done job of a source is deleted with its row.
            ended.append(app.jobs.get_or(job.replace(status=DONE)))
    finally:
        loop.close()
        app.workers.deregister(worker.id)
    return ended


def _run(app: App, new: NewJob, job: RunJob) -> Ran:
    claim = LocalClaim(WORKER, None, job.checkpoint)
    loop = asyncio.Runner()
    try:
        app.prepare(new.queue, loop.run)
        with tempfile.TemporaryDirectory() as folder:
            outcome = _outcome_of(app, job, claim, loop, Folder(folder, app.settings.capture_limit * 1_000_000))
    finally:
        loop.close()
    checkpoint = None if claim.checkpoint is None else json.loads(claim.checkpoint)
    following = _following(job, outcome, claim.checkpoint)
    return Ran(outcome, claim.logs, claim.progress_calls, checkpoint, lambda: _run(app, new, following))


def _following(job: RunJob, outcome: Outcome, checkpoint: str | None) -> RunJob:
    """Return the job of the next attempt; a snooze or a release does not count as one."""
    reason, error, note = (getattr(outcome, name, None) for name in ("reason", "error", "note"))
    status = {"finish": "completed", "fail": "failed"}.get(verb_of(outcome), "released")
    following = copy(job)
    following.token = job.token + 1
    following.attempt = job.attempt + (status != "released")
    following.checkpoint = checkpoint
    run = PreviousRun(job.run_id, WORKER, job.attempt, status, reason, error, note)
    following.previous_runs = [*job.previous_runs, run]
    return following


def _run_claimed(app: App, job: Job, claim: Claim, loop: asyncio.Runner) -> Outcome:
    deadline = None if job.timeout is None else time.monotonic() + job.timeout / SECOND
    run_job = assignment.of_claim(job, claim, app.claims.runs(job.id), deadline)
    run_job.whole = documents.job(job)
    folder = Folder(app.store.database.runs, app.settings.capture_limit * 1_000_000)
    return _outcome_of(app, run_job, StoredClaim(app, claim), loop, folder)


def _outcome_of(app: App, job: RunJob, claim: LocalClaim, loop: asyncio.Runner, folder: Folder) -> Outcome:
    """Run the handler of a job, a function, a coroutine or a command; return its outcome."""
    task = app.tasks.get(job.kind)
    if task is None:
        tasks = ", ".join(app.declarations()["tasks"]) or "none"
        return Failed(f"there is no task {job.kind!r} in this app; known: {tasks}", again=False)
    if task.command is not None:
        return Commands(claim, folder, claim.database or "").run(task.command, job)
    context = Context(job, claim, app.context) if wants_context(task.function) else None
    if task.is_coroutine:
        return loop.run(run_coroutine(task.function, job.payload, context))
    return run_function(task.function, job.payload, context)


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
