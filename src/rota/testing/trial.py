"""Run a handler once, with a real context and no store, and see what it did."""

from __future__ import annotations

import asyncio
import json
import tempfile
from copy import copy
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rota.core.claim import Done, verb_of
from rota.core.frames.assignment import PreviousRun, RunJob
from rota.core.record import Record
from rota.store.jobs.payload import encode
from rota.testing.work import LocalClaim, outcome_of
from rota.worker.capture import Folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rota.app import App
    from rota.core.claim import Outcome
    from rota.core.job import NewJob
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


def _run(app: App, new: NewJob, job: RunJob) -> Ran:
    claim = LocalClaim(WORKER, None, job.checkpoint)
    loop = asyncio.Runner()
    try:
        app.prepare(new.queue, loop.run)
        with tempfile.TemporaryDirectory() as folder:
            outcome = outcome_of(app, job, claim, loop, Folder(folder, app.settings.capture_limit * 1_000_000))
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
