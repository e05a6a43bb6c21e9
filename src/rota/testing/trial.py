"""A handler run once, with a real context and no store: what came of it, and what it said meanwhile."""

from __future__ import annotations

import asyncio
import json
import tempfile
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rota.core.claim import Done, verb_of
from rota.core.ids import run_id
from rota.core.record import Record
from rota.store.jobs.payload import encode
from rota.testing.hand import Hand
from rota.testing.work import outcome_of
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
    """Call the handler of a task so, as a worker would for its first attempt; `.again()` is the next one.

    Arguments and result go through JSON, as they do in a store. Its time-out is told and not enforced.
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
    """What one run of a handler did. `progress` are the calls of `ctx.progress`: how much of how much, and a note."""

    outcome: Outcome
    logs: list[str]
    progress: list[tuple[float, float | None, str | None]]
    checkpoint: Any
    again: Callable[[], Ran]

    @property
    def result(self) -> Any:
        """What the handler returned; it must have succeeded."""
        assert isinstance(self.outcome, Done), f"the handler did not succeed: {self.outcome}"
        return None if self.outcome.result is None else json.loads(self.outcome.result)

    @property
    def error(self) -> str | None:
        """Why it failed; None when it did not."""
        return getattr(self.outcome, "error", None)


def _run(app: App, new: NewJob, handed: Handed) -> Ran:
    heard = Hand(WORKER, None, handed.get("checkpoint"))
    loop = asyncio.Runner()
    try:
        app.prepare(new.queue, loop.run)
        with tempfile.TemporaryDirectory() as folder:
            outcome = outcome_of(app, handed, heard, loop, Folder(folder, app.settings.capture_limit * 1_000_000))
    finally:
        loop.close()
    checkpoint = None if heard.checkpoint is None else json.loads(heard.checkpoint)
    following = {**handed, **_after(handed, outcome), "checkpoint": heard.checkpoint}
    return Ran(outcome, heard.logs, heard.told, checkpoint, lambda: _run(app, new, following))


def _after(handed: Handed, outcome: Outcome) -> Handed:
    """What the next attempt is told of this one; a snooze or a release spends none."""
    told = {name: getattr(outcome, name, None) for name in ("reason", "error", "note")}
    status = {"finish": "completed", "fail": "failed"}.get(verb_of(outcome), "released")
    attempt = handed["attempt"]
    run = {"run_id": run_id(handed["token"]), "worker_id": WORKER, "attempt": attempt, "status": status, **told}
    spent = status != "released"
    runs = [*handed["previous_runs"], run]
    return {"attempt": attempt + spent, "token": handed["token"] + 1, "previous_runs": runs}
