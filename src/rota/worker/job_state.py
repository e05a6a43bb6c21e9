"""One worker life: what its two threads both know, and how it is told to whoever is on the other end of the pipe."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from rota.core.errors import Stale
from rota.core.frames import codec as frames
from rota.core.frames.outcomes import done_frame
from rota.core.ids import run_id
from rota.core.orchestrator import LEASE
from rota.core.times import SECOND
from rota.process.boot_clock import since_boot

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Outcome
    from rota.core.frames.assignment import RunJob
    from rota.core.times import Instant
    from rota.worker.reporter import Reporter

FENCE = 12 * SECOND
PROGRESS_EVERY = 0.1
LONGEST_LOG, LONGEST_NOTE = 8_000, 2_000
# An orchestrator that tells what it has settled leaves far fewer; one that never does must not fill the memory.
MOST_UNSETTLED = 1024


class Life:
    """What waits, what is in hand, what is told and not yet known to be committed, and what the worker was asked.

    `hand` guards the moment at which a job is taken up: whoever holds it sees each job either waiting or in hand.
    `in_hand` goes by token, and so does `cancels`: how to wake a handler that can be told to end. `sessions` are those
    that its commands run in.
    """

    def __init__(self, reporter: Reporter, worker_id: str, slot: str) -> None:
        self.reporter = reporter
        self.worker_id = worker_id
        self.slot = slot
        self.database = os.environ.get("ROTA_DB")
        self.folder = os.getcwd()  # a handler may leave it for one with settings and modules of somebody else
        self.hand = threading.Lock()
        self.in_hand: dict[int, RunJob] = {}
        self.cancels: dict[int, Callable[[], None]] = {}
        self.sessions: set[int] = set()
        self.waiting: deque[RunJob] = deque()
        self.unsettled: deque[tuple[int, bytes]] = deque(maxlen=MOST_UNSETTLED)
        self.checkpoints: dict[int, bytes] = {}
        self.ready = False
        self.stopping = False
        self.stop_now = False
        self.running = False
        self.orphaned = False
        self.lost = False
        self.recovering: float | None = None
        self.has_loop = False
        self.turned_at: float | None = None  # when its loop was last seen to turn, while it runs coroutines
        self.renewed_at: Instant = 0
        self.may_leave = threading.Event()
        self.on_wake: Callable[[], None] | None = None
        self._inbox: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._progress: dict[str, Any] | None = None
        self._progress_at = 0.0

    # jobs

    def next(self) -> RunJob | None:
        """Take up the next job, waiting for one; None when there will be none."""
        while True:
            job = self.take_up()
            if job is not None or self.is_leaving:
                return job
            self._inbox.get()

    def take_up(self) -> RunJob | None:
        """Take up the next job if there is one now. What has outlasted a lease while we stood still goes back."""
        with self.hand:
            if not self.waiting or self.is_leaving:
                return None
            if since_boot() - self.renewed_at >= LEASE:
                self.answer_recall()
                return None
            job = self.waiting.popleft()
            self.in_hand[job.token] = job
            return job

    @property
    def is_leaving(self) -> bool:
        """Whether no further job is begun."""
        return self.stopping or self.orphaned

    def wake(self) -> None:
        """Let the main thread look whether there is a job, or a reason to leave."""
        if self.on_wake is not None:
            self.on_wake()
        elif self._inbox.empty():
            self._inbox.put(None)

    def cancel(self, token: object, reason: str) -> None:
        """Tell a job to end, and its handler why; the first reason stands."""
        with self.hand:
            held = (*self.in_hand.values(), *self.waiting)
            job = next((job for job in held if job.token == token), None)
            if job is None:
                return
            job.cancelled = job.cancelled or reason
            cancel_now = self.cancels.get(job.token)
        if cancel_now is not None:
            cancel_now()

    def end(self, job: RunJob, outcome: Outcome) -> None:
        """Report what came of the job in hand. It is unsettled before it is no longer in hand: never neither."""
        token = job.token
        sys.audit("rota.worker.ended")
        data = done_frame(job.id, token, outcome)
        self.unsettled.append((token, data))
        self.in_hand.pop(token, None)
        if (self.recovering is not None or self._progress is not None) and not self.in_hand:
            self.recovering = self._progress = None
        if not self.reporter.deliver(data):
            self.orphaned = True

    def forget(self, settled: int) -> None:
        """Every outcome that was told up to the one with this token is committed."""
        if all(token != settled for token, _ in self.unsettled):
            return
        token = None
        while token != settled:
            token, _ = self.unsettled.popleft()
            self.checkpoints.pop(token, None)

    def give_back(self, in_hand_too: bool = False) -> None:
        """Give back what was not started; once this returns, that is said, whichever thread did it."""
        with self.hand:
            if in_hand_too and self.in_hand:
                self.waiting.extendleft(reversed(self.in_hand.values()))
                self.in_hand.clear()
            if self.waiting:
                self.answer_recall()

    def answer_recall(self) -> None:
        """Say which jobs go back; call it with the hand held."""
        tokens = [job.token for job in self.waiting]
        self.waiting.clear()
        self.reporter.deliver(frames.encode(frames.RETURNED, {"tokens": tokens}))

    # time

    def renewed(self, at: object) -> None:
        """The claims were renewed at this time since boot; one that nobody told of is as old as its arrival."""
        now = since_boot()
        self.renewed_at = max(self.renewed_at, min(at, now) if isinstance(at, int) else now)

    def is_past_its_fence(self, now: Instant) -> bool:
        """Whether a job in hand must not overlap with another run of it, and another may soon begin."""
        if now - self.renewed_at < FENCE:
            return False
        return any(job.is_fenced for job in tuple(self.in_hand.values()))

    # what is told

    def tell_health(self) -> bool:
        """Say how the worker is, once it is ready; false when that was dropped."""
        if not self.ready:
            return True
        job, asked = next(iter(tuple(self.in_hand.values())), None), self.recovering
        status = "recovering" if asked is not None else "stopping" if self.stopping else "healthy"
        body: dict[str, Any] = {"component_id": self.slot, "status": status, "current_job": job.id if job else None}
        if self.has_loop:
            body["in_hand"] = list(self.in_hand)
        if asked is not None:
            body["recover_for_s"] = asked
        return self.reporter.report(frames.HEALTH, body)

    def tell_progress(self) -> None:
        """Tell the latest progress if it was not told yet."""
        body, self._progress = self._progress, None
        if body is not None:
            self.reporter.report(frames.PROGRESS, body)

    # for the handler's context

    def renew(self, job: RunJob) -> None:
        if self.lost:
            raise Stale(f"the claim on job {job.id} may be lost: nobody has renewed it for ten seconds")

    def log(self, job: RunJob, text: str) -> None:
        self.log_run(job.token, text)

    def log_run(self, token: int, text: str) -> None:
        """Write a line to the log of the orchestrator; no run has the token 0."""
        self.reporter.report(frames.LOG, {"message": text[:LONGEST_LOG], "run": run_id(token)})

    def progress(self, job: RunJob, done: float, total: float | None, note: str | None) -> None:
        told = {"token": job.token, "done": done, "total": total, "note": note and note[:LONGEST_NOTE]}
        self._progress = told
        now = time.monotonic()
        if now >= self._progress_at:
            self._progress_at = now + PROGRESS_EVERY
            self.tell_progress()

    def keep(self, job: RunJob, checkpoint: str) -> None:
        token = job.token
        told = {"job": job.id, "token": token, "checkpoint": checkpoint}
        data = self.checkpoints[token] = frames.encode(frames.CHECKPOINT, told)
        self.reporter.deliver(data)

    def recover(self, seconds: float | None) -> None:
        self.recovering = seconds
        self.tell_health()
