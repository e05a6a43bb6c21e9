"""Coroutines as handlers: one loop for a worker life, in its main thread; one at a time, or as its pool says."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

from rota.core.claim import Failed, Released
from rota.core.errors import BadInput
from rota.core.times import SECOND
from rota.worker.context import Context
from rota.worker.handler import after_cancel, run_coroutine, wants_context

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from types import FrameType

    from rota.core.claim import Outcome
    from rota.core.frames.assignment import RunJob
    from rota.task import Task
    from rota.worker.job_state import JobState
    from rota.worker.tracing import Tracing

TURN_EVERY = 0.25


class Coroutines:
    """The loop. While jobs are in hand it leaves a mark of the time at every turn, for whoever minds a blocked one."""

    def __init__(self, state: JobState, values: Mapping[str, Any], tracing: Tracing) -> None:
        self._state = state
        self._values = values
        self._tracing = tracing
        state.has_loop = True
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._woken = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn: asyncio.TimerHandle | None = None

    def finish(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a setup to its end, before there is any job."""
        if self._loop.is_running():
            coroutine.close()
            raise BadInput("a setup that is a coroutine runs only in the pool of its own queue: start one for it")
        self._runner.run(coroutine)

    def run(self, task: Task[..., Any], job: RunJob) -> Outcome:
        """Run one job to its end."""
        self._mark()
        try:
            return self._runner.run(self._attempt(task, job))
        finally:
            self._unmark()

    def serve(
        self, task_of: Callable[[RunJob], Task[..., Any] | Failed | Released], ended: Callable[[Outcome], None]
    ) -> None:
        """Run jobs as they come, all at once, until there will be none; `ended` hears what came of each."""
        self._state.on_wake = self._from_elsewhere(self._woken.set)
        self._runner.run(self._serve(task_of, ended))

    async def _serve(
        self, task_of: Callable[[RunJob], Task[..., Any] | Failed | Released], ended: Callable[[Outcome], None]
    ) -> None:
        while True:
            self._woken.clear()
            while (job := self._state.take()) is not None:
                if not self._tasks:
                    self._mark()
                task = self._loop.create_task(self._one(task_of(job), job, ended))
                self._tasks.add(task)
                task.add_done_callback(self._ended)
            if self._state.is_leaving and not self._tasks:
                return
            await self._woken.wait()

    async def _one(
        self, task: Task[..., Any] | Failed | Released, job: RunJob, ended: Callable[[Outcome], None]
    ) -> None:
        with self._tracing.run(job, job.queue or "", self._state.worker_id) as traced:
            outcome = traced.outcome = task if isinstance(task, Failed | Released) else await self._attempt(task, job)
        self._state.end(job, outcome)
        ended(outcome)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._unmark()
            self._woken.set()

    async def _attempt(self, task: Task[..., Any], job: RunJob) -> Outcome:
        state, token, this = self._state, job.token, asyncio.current_task()
        assert this is not None
        if job.timeout:
            job.deadline = time.monotonic() + job.timeout / SECOND
        state.cancels[token] = self._from_elsewhere(this.cancel)
        try:
            context = Context(job, state, self._values) if wants_context(task.function) else None
            function = task.function if task.is_coroutine else _in_a_thread(task.function)
            outcome = Failed("") if job.cancelled else await run_coroutine(function, job.payload, context)
        finally:
            del state.cancels[token]
        return after_cancel(job.cancelled, outcome) if job.cancelled else outcome

    def _from_elsewhere(self, what: Callable[[], object]) -> Callable[[], None]:
        """The same for another thread to call."""

        def call() -> None:
            self._loop.call_soon_threadsafe(what)

        return call

    def _mark(self) -> None:
        self._state.loop_turned_at = time.monotonic()
        self._turn = self._loop.call_later(TURN_EVERY, self._mark)

    def _unmark(self) -> None:
        self._state.loop_turned_at = None
        if self._turn is not None:
            self._turn.cancel()


def _in_a_thread(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A source's pass over its data, beside the coroutines: it must not keep their loop from turning."""

    def call(**arguments: Any) -> Coroutine[Any, Any, Any]:
        return asyncio.to_thread(function, **arguments)

    return call


def blocking(thread: int) -> tuple[RunJob | None, str]:
    """Which job keeps the loop of this thread from turning, and where: the handler's line, then the innermost."""
    frame: FrameType | None = sys._current_frames().get(thread)
    innermost = line = _line(frame)
    within = frame
    while frame is not None and frame.f_code is not run_coroutine.__code__:
        within, frame = frame, frame.f_back
    if frame is None or frame.f_back is None or within is None:
        return None, innermost
    line = _line(within)
    return frame.f_back.f_locals.get("job"), line if line == innermost else f"{line}, now at {innermost}"


def _line(frame: FrameType | None) -> str:
    if frame is None:
        return "nowhere"
    code = frame.f_code
    return f"line {frame.f_lineno} of {code.co_filename.rpartition('/')[2]}, in {code.co_name}"
