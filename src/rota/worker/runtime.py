"""The worker: receive a claim, run the handler, report the outcome. It holds no database connection.

The main thread runs handlers, one after another; a second thread reads the pipe and tells every few seconds that the
worker lives, so that a long handler does not look like a dead one.
"""

from __future__ import annotations

import os
import queue
import select
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from rota.core import frame as frames
from rota.core.claim import Done, Failed, Released, Returned, Snoozed
from rota.core.death import EXIT_ORPHANED, EXIT_SETUP_FAILED, EXIT_TOO_MANY_ERRORS
from rota.worker.context import Context
from rota.worker.handler import run
from rota.worker.reporter import Reporter

if TYPE_CHECKING:
    from rota.app import App
    from rota.core.claim import Outcome

FRAME_INTERVAL = 3.0
ERRORS_IN_A_ROW = 10


class Runtime:
    """One worker life."""

    def __init__(self, pipe: socket.socket, slot: str, worker_id: str, queue_name: str) -> None:
        pipe.setblocking(False)
        self._pipe = pipe
        self._slot = slot
        self._worker_id = worker_id
        self._queue = queue_name
        self._reporter = Reporter(pipe)
        self._inbox: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._recall = threading.Lock()
        self._waiting: list[dict[str, Any]] = []
        self._context: Context | None = None
        self._ready = False
        self._stopping = False

    def work(self, app: App) -> int:
        """Serve until asked to stop; the exit code."""
        self._say_hello(app)
        reader = threading.Thread(target=self._listen, name="rota-frames", daemon=True)
        reader.start()
        try:
            app.prepare(self._queue)
        except BaseException as problem:
            print(f"setup of queue {self._queue} failed: {type(problem).__name__}: {problem}", file=sys.stderr)
            return EXIT_SETUP_FAILED
        self._ready = True
        self._tell_health()
        errors = 0
        while True:
            job = self._next()
            if job is None:
                return 0
            outcome, heard = self._run(app, job)
            if not heard:
                return EXIT_ORPHANED
            errors = errors + 1 if isinstance(outcome, Failed) else 0
            if errors >= ERRORS_IN_A_ROW:
                return EXIT_TOO_MANY_ERRORS

    def _next(self) -> dict[str, Any] | None:
        while True:
            with self._recall:
                if self._waiting:
                    return self._waiting.pop(0)
            if self._stopping:
                return None
            self._inbox.get()

    def _run(self, app: App, job: dict[str, Any]) -> tuple[Outcome, bool]:
        """Run one job and report it: what came of it, and whether anyone heard."""
        context = self._context = Context(self._reporter, self._worker_id, job, lambda: self._stopping)
        task = app.tasks.get(job["kind"])
        if task is None:
            known = ", ".join(sorted(app.tasks)) or "none"
            outcome: Outcome = Failed(f"there is no task {job['kind']!r} in this app; known: {known}", again=False)
        else:
            outcome = run(task.function, job["payload"], context)
        self._context = None
        report = {"job": job["id"], "token": job["token"], **_told(outcome)}
        return outcome, self._reporter.deliver(frames.DONE, report)

    def _say_hello(self, app: App) -> None:
        tasks = sorted(app.tasks)
        self._reporter.deliver(frames.HELLO, {"component_id": self._slot, "protocol": frames.PROTOCOL, "tasks": tasks})

    def _tell_health(self) -> None:
        context = self._context
        if self._ready:
            job = context.job_id if context else None
            body = {"component_id": self._slot, "status": "healthy", "current_job": job}
            self._reporter.report(frames.HEALTH, body)

    def _listen(self) -> None:
        """Read until the orchestrator is gone; beat on the way."""
        decoder, beat_at = frames.Decoder(), time.monotonic() + FRAME_INTERVAL
        while True:
            readable, _, _ = select.select([self._pipe], [], [], max(0.0, beat_at - time.monotonic()))
            if time.monotonic() >= beat_at:
                self._tell_health()
                beat_at = time.monotonic() + FRAME_INTERVAL
            if not readable:
                continue
            try:
                data = self._pipe.recv(1 << 18)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                self._stopping = True
                with self._recall:
                    self._waiting.clear()
                self._inbox.put(None)
                return
            for frame in decoder.feed(data):
                self._take(frame)

    def _take(self, frame: frames.Frame) -> None:
        match frame.kind:
            case frames.RUN:
                with self._recall:
                    self._waiting += frame.body["jobs"]
                self._inbox.put(None)
            case frames.RECALL:
                with self._recall:
                    tokens, self._waiting = [job["token"] for job in self._waiting], []
                self._reporter.deliver(frames.RETURNED, {"tokens": tokens})
            case frames.STOP:
                self._stopping = True
                self._inbox.put(None)
            case _:
                pass


def _told(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Done(result):
            return {"outcome": "done", "result": result}
        case Failed(error, again, reason):
            return {"outcome": "failed", "error": error, "again": again, "reason": reason}
        case Snoozed(delay, note):
            return {"outcome": "snoozed", "delay": delay, "note": note}
        case Released(note):
            return {"outcome": "released", "note": note}
        case Returned():
            return {"outcome": "released"}


def main() -> None:
    """`python -m rota.worker`: what an orchestrator starts."""
    import faulthandler

    faulthandler.enable()
    from rota.worker.load import load_app

    pipe = socket.socket(fileno=int(os.environ["ROTA_FRAME_FD"]))
    runtime = Runtime(pipe, os.environ["ROTA_SLOT"], os.environ["ROTA_WORKER_ID"], os.environ["ROTA_QUEUE"])
    app = load_app(os.environ["ROTA_APP"])
    code = runtime.work(app)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
