"""The worker: receive a claim, run the handler, report the outcome. It holds no database connection.

The main thread runs handlers, one after another, or coroutines, as many at a time as the pool says. A second thread
(`channel.py`) reads the pipe and sends heartbeats, so that a long handler does not look like a dead one.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from rota.core.claim import Failed, Released
from rota.core.death import EXIT_ORPHANED, EXIT_RECYCLED, EXIT_SETUP_FAILED, EXIT_TOO_MANY_ERRORS
from rota.core.errors import RotaError
from rota.core.frames import codec as frames
from rota.core.job import UNKNOWN_KIND
from rota.core.source import KIND
from rota.core.times import SECOND
from rota.process import run_environment
from rota.settings import load
from rota.worker.channel import STOP_SIGNALS, Channel, ChannelThread
from rota.worker.context import Context
from rota.worker.handler import CUT_SHORT, Interrupted, run, wants_context
from rota.worker.job_state import JobState
from rota.worker.tracing import Tracing

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import FrameType

    from rota.app import App
    from rota.core.claim import Outcome
    from rota.core.frames.assignment import RunJob
    from rota.settings import Settings
    from rota.task import Task
    from rota.worker.command import Commands
    from rota.worker.coroutines import Coroutines

ERRORS_IN_A_ROW = 10
CHECK_SIZE_EVERY = 0.02
_STATM = "/proc/self/statm"


class Runtime:
    """The main thread of a worker."""

    def __init__(self, state: JobState, app: App, queue: str, settings: Settings) -> None:
        self._state = state
        self._app = app
        self._queue = queue
        self._settings = settings
        self._recycling = Recycling(settings)
        self._tracing = Tracing(settings)
        self._prepared: set[str] = set()
        self._errors = 0
        self._environment_run = ""

    def work(self) -> int:
        """Serve until asked to stop, or for a reason of its own; return the exit code."""
        state = self._state
        state.channel.deliver(frames.encode(frames.HELLO, self._hello()))
        if not self._prepare(self._queue):
            return EXIT_SETUP_FAILED
        state.is_ready = True
        state.send_health()
        code = self._serve() if self._app.concurrency(self._queue) == 1 else self._serve_coroutines()
        state.stopping = True
        state.give_back(running_too=True)
        self._tracing.flush()
        # The helper must have settled everything first: its parent has to live until then (decision 10).
        if state.is_orphaned:
            state.may_leave.wait()
            return EXIT_ORPHANED
        state.send_health()
        return code

    def _hello(self) -> dict[str, object]:
        declarations = self._app.declarations(self._queue)
        return {"component_id": self._state.slot, "protocol": frames.PROTOCOL, **declarations}

    def _serve(self) -> int:
        """Run jobs one after another until there will be none; return the exit code."""
        state, code = self._state, 0
        while not code and (job := state.next_job()) is not None:
            task = self._app.tasks.get(job.kind)
            queue = job.queue or self._queue
            if task is not None and queue not in self._prepared and not self._prepare(queue):
                return EXIT_SETUP_FAILED
            # No context manager where tracing is off, because every job would pay for it.
            if self._tracing.is_on:
                with self._tracing.run(job, queue, state.worker_id) as traced:
                    outcome = traced.outcome = self._run_any(job) if task is None else self._run(task, job)
            else:
                outcome = self._run_any(job) if task is None else self._run(task, job)
            state.end(job, outcome)
            code = self._count(outcome)
        return code

    def _serve_coroutines(self) -> int:
        """Run coroutines, as many at a time as are handed out, until there will be none; return the exit code."""
        state, codes = self._state, [0]

        def on_end(outcome: Outcome) -> None:
            codes.append(self._count(outcome))
            if codes[-1] and not state.stopping:
                state.stopping = True
                state.give_back()
                state.send_health()

        self._coroutines.serve(self._coroutine_of, on_end)
        return max(codes)

    def _coroutine_of(self, job: RunJob) -> Task[..., object] | Failed | Released:
        task = self._app.tasks.get(job.kind)
        if task is None:
            return self._unknown(job.kind)
        # A pass over a source may be a function: it gets a thread of its own (decision 13).
        if not task.is_coroutine and not job.kind.startswith(KIND):
            at_once = f"the pool {self._queue} runs {self._app.concurrency(self._queue)} coroutines at once"
            return Failed(f"{job.kind} is no coroutine, and {at_once}: give its queue a pool of its own", again=False)
        queue = job.queue or self._queue
        if queue not in self._prepared and not self._prepare(queue):
            return Failed(f"the setup of queue {queue} failed")
        return task

    def _count(self, outcome: Outcome) -> int:
        """Count an outcome; return the exit code with which this worker should leave after it, or 0."""
        # A release says nothing about the worker: it was asked to stop, or does not know the kind.
        if not isinstance(outcome, Released):
            self._errors = self._errors + 1 if isinstance(outcome, Failed) else 0
        if self._errors >= ERRORS_IN_A_ROW:
            return EXIT_TOO_MANY_ERRORS
        return EXIT_RECYCLED if self._recycling.is_on and self._recycling.is_due() else 0

    def _run(self, task: Task[..., object], job: RunJob) -> Outcome:
        """Call the handler. Only while it is interruptible may a signal raise `Interrupted`, and it raises once."""
        state, function = self._state, task.function
        if job.timeout:
            job.deadline = time.monotonic() + job.timeout / SECOND
        if task.command is not None:
            return self._commands.run(task.command, job)
        self._mark_environment(job.run_id)
        if task.is_coroutine:
            return self._coroutines.run(task, job)
        state.is_interruptible = True
        try:
            if state.stop_now:
                raise Interrupted
            context = Context(job, state, self._app.context) if wants_context(function) else None
            outcome = run(function, job.payload, context)
            state.is_interruptible = False
        except Interrupted:
            outcome = Released(CUT_SHORT)
        # What its clean-up raised after the interruption is no fault of the job.
        if state.stop_now and isinstance(outcome, Failed):
            outcome = Released(CUT_SHORT)
        return outcome

    def _mark_environment(self, run: str) -> None:
        """Name the run in the environment, by which a process that outlives it is recognised as its leak."""
        for name, piece in run_environment.changes(self._environment_run, run):
            os.environ[name] = piece
        self._environment_run = run

    def _run_any(self, job: RunJob) -> Outcome:
        """Run a job of a kind that has no task of its own."""
        every = self._app.every
        return self._unknown(job.kind) if every is None else self._commands.run(every, job)

    @cached_property
    def _coroutines(self) -> Coroutines:
        # Imported late: asyncio costs a worker without coroutines time and memory at every start.
        from rota.worker.coroutines import Coroutines

        return Coroutines(self._state, self._app.context, self._tracing)

    @cached_property
    def _commands(self) -> Commands:
        from rota.worker.capture import Folder
        from rota.worker.command import Commands

        folder = Folder(os.environ.get("ROTA_RUNS", "runs"), self._settings.capture_limit * 1_000_000)
        return Commands(self._state, folder, os.environ.get("ROTA_DB", ""))

    def _prepare(self, queue: str) -> bool:
        """Run the setup of a queue, once per worker; return False if it failed, with a line on stderr."""
        try:
            self._app.prepare(queue, self._finish)
        # SystemExit too: whatever a setup raises, the slot should show it as a failed setup.
        except BaseException as problem:
            _complain(f"setup of queue {queue} failed: {type(problem).__name__}: {problem}")
            return False
        self._prepared.add(queue)
        return True

    def _finish(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutines.finish(coroutine)

    def _unknown(self, kind: str) -> Failed | Released:
        """Fail a job without a kind, which nobody will ever know; release another for a worker that knows its kind."""
        tasks = ", ".join(self._app.declarations(self._queue)["tasks"]) or "none"
        if not kind:
            return Failed(f"the job says no task: add it with --kind, one of: {tasks}", again=False)
        return Released(f"there is no task {kind!r} in this app; known: {tasks}", UNKNOWN_KIND)


class Recycling:
    """Decides after every job whether the worker has done enough jobs, or has grown too large."""

    def __init__(self, settings: Settings) -> None:
        self.is_on = bool(settings.max_jobs or settings.max_rss)
        self._jobs_left = settings.max_jobs
        self._most_bytes = settings.max_rss * 1_000_000
        self._check_at = 0.0

    def is_due(self) -> bool:
        self._jobs_left -= 1
        return self._jobs_left == 0 or (self._most_bytes > 0 and self._is_large())

    def _is_large(self) -> bool:
        # Reading the size takes longer than running a short job does.
        if time.monotonic() < self._check_at:
            return False
        self._check_at = time.monotonic() + CHECK_SIZE_EVERY
        return resident() > self._most_bytes


def resident() -> int:
    """Return the resident size of this process in bytes; where the system does not say, the largest it ever was."""
    try:
        with open(_STATM, "rb", buffering=0) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Run `python -m rota.worker`, which an orchestrator starts."""
    import faulthandler

    # A crash in a library leaves its Python stack on stderr, whose end goes into the certificate.
    faulthandler.enable()
    pipe = socket.socket(fileno=int(os.environ["ROTA_FRAME_FD"]))
    pipe.setblocking(False)
    state = JobState(Channel(pipe), os.environ["ROTA_WORKER_ID"], os.environ["ROTA_SLOT"])
    signals = _record_signals(state)
    from rota.worker.app_loader import load_app

    try:
        settings = load()
        # Before the application is imported, which may take long: a stop in the meantime must be obeyed.
        ChannelThread(state, signals, settings.frame_interval / SECOND).start()
        app = load_app(os.environ["ROTA_APP"])
        runtime = Runtime(state, app, os.environ["ROTA_QUEUE"], settings)
    except RotaError as problem:
        _complain(str(problem))
        _leave(EXIT_SETUP_FAILED)
    _leave(runtime.work())


def _record_signals(state: JobState) -> int:
    """Let stop signals write their number into a pipe, and return its end to read. One may also interrupt a handler."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)

    def record(_number: int, _frame: FrameType | None) -> None:
        if state.stop_now and state.is_interruptible and not state.channel.is_writing:
            state.is_interruptible = False
            raise Interrupted

    for number in STOP_SIGNALS:
        signal.signal(number, record)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


def _complain(text: str) -> None:
    """Print a line for the orchestrator's log and the certificate, if anyone is there to read it."""
    try:
        print(text, file=sys.stderr)
    except OSError:
        pass


def _leave(code: int) -> NoReturn:
    """End this process without waiting for threads that a handler may have left."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass
    os._exit(code)
