"""The worker: receive a claim, run the handler, report the outcome. It holds no database connection.

The main thread runs handlers, one after another, or coroutines, as many at a time as the pool says; a second thread
reads the pipe and tells every few seconds that the worker lives, so that a long handler does not look like a dead one.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from rota.core import run_environment
from rota.core.claim import Failed, Released
from rota.core.death import EXIT_ORPHANED, EXIT_RECYCLED, EXIT_SETUP_FAILED, EXIT_TOO_MANY_ERRORS
from rota.core.errors import RotaError
from rota.core.frames import codec as frames
from rota.core.ids import run_id
from rota.core.job import UNKNOWN_KIND
from rota.core.source import KIND
from rota.core.times import SECOND
from rota.settings import load
from rota.worker.context import Context
from rota.worker.handler import CUT_SHORT, Interrupted, run, wants_context
from rota.worker.job_state import Life
from rota.worker.reader import STOP_SIGNALS, Reader
from rota.worker.recycle import Recycling
from rota.worker.reporter import Reporter
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


class Runtime:
    """The main thread of one worker life."""

    def __init__(self, life: Life, app: App, queue: str, settings: Settings) -> None:
        self._life = life
        self._app = app
        self._queue = queue
        self._settings = settings
        self._recycling = Recycling(settings)
        self._tracing = Tracing(settings)
        self._prepared: set[str] = set()
        self._errors = 0
        self._marked = ""

    def work(self) -> int:
        """Serve until asked to stop, or for a reason of its own; the exit code."""
        life = self._life
        life.reporter.deliver(frames.encode(frames.HELLO, self._hello()))
        if not self._prepare(self._queue):
            return EXIT_SETUP_FAILED
        life.ready = True
        life.tell_health()
        code = self._serve() if self._app.concurrency(self._queue) == 1 else self._serve_many()
        life.stopping = True
        life.give_back(in_hand_too=True)
        self._tracing.flush()
        if life.orphaned:
            life.may_leave.wait()
            return EXIT_ORPHANED
        life.tell_health()
        return code

    def _hello(self) -> dict[str, object]:
        slot, told = self._life.slot, self._app.declarations(self._queue)
        return {"component_id": slot, "protocol": frames.PROTOCOL, **told}

    def _serve(self) -> int:
        """Run jobs one after another until there will be none; why it is over, as an exit code."""
        life, code = self._life, 0
        while not code and (job := life.next()) is not None:
            task = self._app.tasks.get(job.kind)
            queue = job.queue or self._queue
            if task is not None and queue not in self._prepared and not self._prepare(queue):
                return EXIT_SETUP_FAILED
            if self._tracing.is_on:
                with self._tracing.run(job, queue, life.worker_id) as traced:
                    outcome = traced.outcome = self._run_any(job) if task is None else self._run(task, job)
            else:
                outcome = self._run_any(job) if task is None else self._run(task, job)
            life.end(job, outcome)
            code = self._count(outcome)
        return code

    def _serve_many(self) -> int:
        """Run coroutines, as many at a time as are handed out, until there will be none."""
        life, codes = self._life, [0]

        def ended(outcome: Outcome) -> None:
            codes.append(self._count(outcome))
            if codes[-1] and not life.stopping:
                life.stopping = True
                life.give_back()
                life.tell_health()

        self._coroutines.serve(self._coroutine_of, ended)
        return max(codes)

    def _coroutine_of(self, job: RunJob) -> Task[..., object] | Failed | Released:
        kind = job.kind
        task = self._app.tasks.get(kind)
        if task is None:
            return self._unknown(kind)
        if not task.is_coroutine and not kind.startswith(KIND):
            at_once = f"the pool {self._queue} runs {self._app.concurrency(self._queue)} coroutines at once"
            return Failed(f"{kind} is no coroutine, and {at_once}: give its queue a pool of its own", again=False)
        queue = job.queue or self._queue
        if queue not in self._prepared and not self._prepare(queue):
            return Failed(f"the setup of queue {queue} failed")
        return task

    def _count(self, outcome: Outcome) -> int:
        """After each job: the exit code with which this worker has had enough, or 0."""
        if not isinstance(outcome, Released):  # it says nothing of how this worker is
            self._errors = self._errors + 1 if isinstance(outcome, Failed) else 0
        if self._errors >= ERRORS_IN_A_ROW:
            return EXIT_TOO_MANY_ERRORS
        return EXIT_RECYCLED if self._recycling.is_on and self._recycling.is_due() else 0

    def _run(self, task: Task[..., object], job: RunJob) -> Outcome:
        """Call the handler. Only while `running` may a signal raise `Interrupted`, and it raises once."""
        life, function = self._life, task.function
        if job.timeout:
            job.deadline = time.monotonic() + job.timeout / SECOND
        if task.command is not None:
            return self._commands.run(task.command, job)
        self._mark(run_id(job.token))
        if task.is_coroutine:
            return self._coroutines.run(task, job)
        life.running = True
        try:
            if life.stop_now:
                raise Interrupted
            context = Context(job, life, self._app.context) if wants_context(function) else None
            outcome = run(function, job.payload, context)
            life.running = False
        except Interrupted:
            outcome = Released(CUT_SHORT)
        if life.stop_now and isinstance(outcome, Failed):  # what its clean-up raised is no fault of the job
            outcome = Released(CUT_SHORT)
        return outcome

    def _mark(self, run: str) -> None:
        """Tell by the environment whose a process is that outlives its run."""
        for name, piece in run_environment.changes(self._marked, run):
            os.environ[name] = piece
        self._marked = run

    def _run_any(self, job: RunJob) -> Outcome:
        """A job of a kind that has no task of its own."""
        every = self._app.every
        return self._unknown(job.kind) if every is None else self._commands.run(every, job)

    @cached_property
    def _coroutines(self) -> Coroutines:
        from rota.worker.coroutines import Coroutines  # a worker without them never needs a loop

        return Coroutines(self._life, self._app.context, self._tracing)

    @cached_property
    def _commands(self) -> Commands:
        from rota.worker.capture import Folder
        from rota.worker.command import Commands

        kept = Folder(os.environ.get("ROTA_RUNS", "runs"), self._settings.capture_limit * 1_000_000)
        return Commands(self._life, kept, os.environ.get("ROTA_DB", ""))

    def _prepare(self, queue: str) -> bool:
        """Run the setup of a queue, once in this life; false when it failed, which is told on stderr."""
        try:
            self._app.prepare(queue, self._finish)
        except BaseException as problem:
            _complain(f"setup of queue {queue} failed: {type(problem).__name__}: {problem}")
            return False
        self._prepared.add(queue)
        return True

    def _finish(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutines.finish(coroutine)

    def _unknown(self, kind: str) -> Failed | Released:
        """A kind that nobody will ever know has failed; another waits for a worker that knows it."""
        known = ", ".join(self._app.declarations(self._queue)["tasks"]) or "none"
        if not kind:
            return Failed(f"the job says no task: add it with --kind, one of: {known}", again=False)
        return Released(f"there is no task {kind!r} in this app; known: {known}", UNKNOWN_KIND)


def main() -> None:
    """`python -m rota.worker`: what an orchestrator starts."""
    import faulthandler

    faulthandler.enable()
    pipe = socket.socket(fileno=int(os.environ["ROTA_FRAME_FD"]))
    pipe.setblocking(False)
    life = Life(Reporter(pipe), os.environ["ROTA_WORKER_ID"], os.environ["ROTA_SLOT"])
    notes = _record_signals(life)
    from rota.worker.app_loader import load_app

    try:
        settings = load()
        Reader(life, pipe, notes, settings.frame_interval / SECOND).start()
        app = load_app(os.environ["ROTA_APP"])
        runtime = Runtime(life, app, os.environ["ROTA_QUEUE"], settings)
    except RotaError as problem:
        _complain(str(problem))
        _leave(EXIT_SETUP_FAILED)
    _leave(runtime.work())


def _record_signals(life: Life) -> int:
    """Stop signals leave their number in a pipe; where to read it. One may also end a handler's last second."""
    notes, written = os.pipe()
    os.set_blocking(notes, False)
    os.set_blocking(written, False)

    def record(_number: int, _frame: FrameType | None) -> None:
        if life.stop_now and life.running and not life.reporter.is_writing:
            life.running = False
            raise Interrupted

    for number in STOP_SIGNALS:
        signal.signal(number, record)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    return notes


def _complain(text: str) -> None:
    """A line for the orchestrator's log and the certificate, if anyone is there to read it."""
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
