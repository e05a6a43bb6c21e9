"""Coroutines as handlers: one event loop per worker, in its main thread; one job at a time, or as its pool says."""

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
    """The event loop. While jobs run, it notes the times of its turns, so that a blocked loop is noticed."""

    def __init__(self, state: JobState, values: Mapping[str, Any], tracing: Tracing) -> None:
        self._state = state
        self._values = values
        self._tracing = tracing
        # From now on heartbeats name every running job, as there may be several (decision 13).
        state.has_loop = True
        self._runner = asyncio.Runner()
        # The same loop for setups and jobs: what a setup opens in it is usable in the jobs.
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
        self._note_turn()
        try:
            return self._runner.run(self._attempt(task, job))
        finally:
            self._note_idle()

    def serve(
        self, task_of: Callable[[RunJob], Task[..., Any] | Failed | Released], on_end: Callable[[Outcome], None]
    ) -> None:
        """Run jobs as they come, all at once, until there will be none; call `on_end` with each outcome."""
        self._state.on_wake = self._threadsafe(self._woken.set)
        self._runner.run(self._serve(task_of, on_end))

    async def _serve(
        self, task_of: Callable[[RunJob], Task[..., Any] | Failed | Released], on_end: Callable[[Outcome], None]
    ) -> None:
        while True:
            # Cleared before looking: a job that comes in between sets it again.
            self._woken.clear()
            while (job := self._state.take()) is not None:
                if not self._tasks:
                    self._note_turn()
                task = self._loop.create_task(self._one(task_of(job), job, on_end))
                # The loop itself holds its tasks weakly.
                self._tasks.add(task)
                task.add_done_callback(self._ended)
            if self._state.is_leaving and not self._tasks:
                return
            await self._woken.wait()

    async def _one(
        self, task: Task[..., Any] | Failed | Released, job: RunJob, on_end: Callable[[Outcome], None]
    ) -> None:
        with self._tracing.run(job, job.queue or "", self._state.worker_id) as traced:
            outcome = traced.outcome = task if isinstance(task, Failed | Released) else await self._attempt(task, job)
        self._state.end(job, outcome)
        on_end(outcome)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._note_idle()
            self._woken.set()

    async def _attempt(self, task: Task[..., Any], job: RunJob) -> Outcome:
        state, token, this = self._state, job.token, asyncio.current_task()
        assert this is not None
        if job.timeout:
            job.deadline = time.monotonic() + job.timeout / SECOND
        state.cancels[token] = self._threadsafe(this.cancel)
        try:
            context = Context(job, state, self._values) if wants_context(task.function) else None
            function = task.function if task.is_coroutine else _in_a_thread(task.function)
            # It may have been cancelled while it waited, before there was a task to cancel.
            outcome = Failed("") if job.cancelled else await run_coroutine(function, job.payload, context)
        finally:
            del state.cancels[token]
        return after_cancel(job.cancelled, outcome) if job.cancelled else outcome

    def _threadsafe(self, function: Callable[[], object]) -> Callable[[], None]:
        """Return a function that calls this one in the loop, for another thread to call."""

        def call() -> None:
            self._loop.call_soon_threadsafe(function)

        return call

    def _note_turn(self) -> None:
        self._state.loop_turned_at = time.monotonic()
        self._turn = self._loop.call_later(TURN_EVERY, self._note_turn)

    def _note_idle(self) -> None:
        self._state.loop_turned_at = None
        if self._turn is not None:
            self._turn.cancel()


def _in_a_thread(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a coroutine function that runs a pass over a source in a thread, beside the loop (decision 13)."""

    def call(**arguments: Any) -> Coroutine[Any, Any, Any]:
        return asyncio.to_thread(function, **arguments)

    return call


def blocking(thread: int) -> tuple[RunJob | None, str]:
    """Return which job keeps the loop of a thread from turning, and where: the handler's line, then the innermost."""
    # Walk outwards to `run_coroutine`, whose caller has the job; the frame within it is the handler's.
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
