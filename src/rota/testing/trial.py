"""Run a handler once, with a real context and no store, and see what it did."""

from __future__ import annotations

import asyncio
import json
import tempfile
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rota.core.claim import Done, verb_of
from rota.core.ids import run_id
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

    Handed = dict[str, Any]

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
    handed = {
        "id": 1,
        "token": 1,
        "queue": new.queue,
        "kind": new.kind,
        "title": new.title,
        "payload": encode(new.payload, "payload"),
        "priority": new.priority,
        "attempt": 1,
        "max_attempts": new.max_attempts or task.app.settings.max_attempts,
        "previous_runs": [],
    }
    return _run(task.app, new, handed)


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


def _run(app: App, new: NewJob, handed: Handed) -> Ran:
    claim = LocalClaim(WORKER, None, handed.get("checkpoint"))
    loop = asyncio.Runner()
    try:
        app.prepare(new.queue, loop.run)
        with tempfile.TemporaryDirectory() as folder:
            outcome = outcome_of(app, handed, claim, loop, Folder(folder, app.settings.capture_limit * 1_000_000))
    finally:
        loop.close()
    checkpoint = None if claim.checkpoint is None else json.loads(claim.checkpoint)
    following = {**handed, **_after(handed, outcome), "checkpoint": claim.checkpoint}
    return Ran(outcome, claim.logs, claim.progress_calls, checkpoint, lambda: _run(app, new, following))


def _after(handed: Handed, outcome: Outcome) -> Handed:
    """Return the fields of the next attempt; a snooze or a release does not count as one."""
    facts = {name: getattr(outcome, name, None) for name in ("reason", "error", "note")}
    status = {"finish": "completed", "fail": "failed"}.get(verb_of(outcome), "released")
    attempt = handed["attempt"]
    run = {"run_id": run_id(handed["token"]), "worker_id": WORKER, "attempt": attempt, "status": status, **facts}
    spent = status != "released"
    runs = [*handed["previous_runs"], run]
    return {"attempt": attempt + spent, "token": handed["token"] + 1, "previous_runs": runs}
