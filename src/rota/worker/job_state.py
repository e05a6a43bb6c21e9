"""What the two threads of a worker share: its jobs, what it has reported, and what it was asked to do."""

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
from rota.core.orchestrator import END_AFTER, LEASE
from rota.process.host import since_boot

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Outcome
    from rota.core.frames.assignment import RunJob
    from rota.core.times import Instant
    from rota.worker.channel import Channel

PROGRESS_EVERY = 0.1
LONGEST_LOG, LONGEST_NOTE = 8_000, 2_000
# An orchestrator that confirms what it has settled leaves far fewer; one that never does must not fill the memory.
MOST_UNSETTLED = 1024


class JobState:
    """The jobs of a worker: waiting, running, or ended and not known to be settled; and whether it should stop.

    Under `lock`, each job is either waiting or running. Three dicts go by token: `running`, `checkpoints`, and
    `cancels`, the functions that wake a handler which can be told to end. `sessions` are those of its commands.
    """

    def __init__(self, channel: Channel, worker_id: str, slot: str) -> None:
        self.channel = channel
        self.worker_id = worker_id
        self.slot = slot
        self.database = os.environ.get("ROTA_DB")
        # Read now: a handler may change to a folder with settings and modules of somebody else.
        self.folder = os.getcwd()
        self.lock = threading.Lock()
        self.running: dict[int, RunJob] = {}
        self.cancels: dict[int, Callable[[], None]] = {}
        self.sessions: set[int] = set()
        self.waiting: deque[RunJob] = deque()
        self.unsettled: deque[tuple[int, bytes]] = deque(maxlen=MOST_UNSETTLED)
        self.checkpoints: dict[int, bytes] = {}
        self.is_ready = False
        self.stopping = False
        self.stop_now = False
        # While a handler runs in the main thread: only then may a signal raise `Interrupted`.
        self.is_interruptible = False
        self.is_orphaned = False
        self.lost = False
        self.recovering: float | None = None
        self.has_loop = False
        # Only set while coroutines run: an idle loop does not turn, and is not blocked.
        self.loop_turned_at: float | None = None
        self.renewed_at: Instant = 0  # on the clock since boot, which counts through sleep (decision 6)
        self.may_leave = threading.Event()
        self.on_wake: Callable[[], None] | None = None
        self._inbox: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._progress: dict[str, Any] | None = None
        self._progress_at = 0.0

    def next_job(self) -> RunJob | None:
        """Start the next job, waiting for one; return None if there will be none."""
        while True:
            job = self.take()
            if job is not None or self.is_leaving:
                return job
            self._inbox.get()

    def take(self) -> RunJob | None:
        """Start the next job if there is one now."""
        with self.lock:
            if not self.waiting or self.is_leaving:
                return None
            # This process stood still for a whole lease, so the jobs may be somebody else's by now.
            if since_boot() - self.renewed_at >= LEASE:
                self.answer_recall()
                return None
            job = self.waiting.popleft()
            self.running[job.token] = job
            return job

    @property
    def is_leaving(self) -> bool:
        """Whether no further job is started."""
        return self.stopping or self.is_orphaned

    def wake(self) -> None:
        """Let the main thread check whether there is a job, or a reason to leave."""
        if self.on_wake is not None:
            self.on_wake()
        elif self._inbox.empty():
            self._inbox.put(None)

    def cancel(self, token: object, reason: str) -> None:
        """Cancel a waiting or running job; the first reason counts."""
        with self.lock:
            job = next((job for job in (*self.running.values(), *self.waiting) if job.token == token), None)
            if job is None:
                return
            # A waiting job notices this when it starts; a running one is woken below.
            job.cancelled = job.cancelled or reason
            cancel_now = self.cancels.get(job.token)
        if cancel_now is not None:
            cancel_now()

    def end(self, job: RunJob, outcome: Outcome) -> None:
        """Report the outcome of a running job."""
        token = job.token
        # A point at which tests kill the worker (decision 30).
        sys.audit("rota.worker.ended")
        data = done_frame(job.id, token, outcome)
        # Unsettled before it stops running: an orphan's helper must find each job in one of the two (decision 10).
        self.unsettled.append((token, data))
        self.running.pop(token, None)
        # Progress and recovery belong to the job that ended; with several, it is not known to which.
        if (self.recovering is not None or self._progress is not None) and not self.running:
            self.recovering = self._progress = None
        if not self.channel.deliver(data):
            self.is_orphaned = True

    def forget_settled(self, last: int) -> None:
        """Forget every outcome that was reported up to the one with this token, because it is committed."""
        # Confirmed already, or dropped because there were too many: nothing is known about those before it.
        if all(token != last for token, _ in self.unsettled):
            return
        token = None
        while token != last:
            token, _ = self.unsettled.popleft()
            self.checkpoints.pop(token, None)

    def give_back(self, running_too: bool = False) -> None:
        """Give back what was not started; once this returns, that is reported, whichever thread did it."""
        with self.lock:
            if running_too and self.running:
                self.waiting.extendleft(reversed(self.running.values()))
                self.running.clear()
            if self.waiting:
                self.answer_recall()

    def answer_recall(self) -> None:
        """Report which jobs go back. The caller holds the lock."""
        tokens = [job.token for job in self.waiting]
        self.waiting.clear()
        self.channel.deliver(frames.encode(frames.RETURNED, {"tokens": tokens}))

    def note_renewal(self, at: object) -> None:
        """Note when the claims were renewed, in microseconds since boot; now, if the orchestrator did not say."""
        # Never later than now, and never earlier than before: frames may arrive late, and any program may write them.
        now = since_boot()
        self.renewed_at = max(self.renewed_at, min(at, now) if isinstance(at, int) else now)

    def is_past_fence(self, now: Instant) -> bool:
        """Whether a running job must not overlap with another run of it, and another may soon start."""
        if now - self.renewed_at < END_AFTER:
            return False
        return any(job.is_fenced for job in tuple(self.running.values()))

    def send_health(self) -> bool:
        """Report the worker's health, once it is ready; return False if the report was dropped."""
        if not self.is_ready:
            return True
        job, recover_for = next(iter(tuple(self.running.values())), None), self.recovering
        status = "recovering" if recover_for is not None else "stopping" if self.stopping else "healthy"
        body: dict[str, Any] = {"component_id": self.slot, "status": status, "current_job": job.id if job else None}
        if self.has_loop:
            # The orchestrator compares the tokens with what it handed out, and finds lost outcomes.
            body["in_hand"] = list(self.running)
        if recover_for is not None:
            body["recover_for_s"] = recover_for
        return self.channel.report(frames.HEALTH, body)

    def send_progress(self) -> None:
        """Report the latest progress, unless it was reported already."""
        body, self._progress = self._progress, None
        if body is not None:
            self.channel.report(frames.PROGRESS, body)

    def log_run(self, token: int, text: str) -> None:
        """Write a line to the orchestrator's log; no run has the token 0."""
        self.channel.report(frames.LOG, {"message": text[:LONGEST_LOG], "run": run_id(token)})

    # What a handler's context asks for: see `context.Link`.

    def renew(self, job: RunJob) -> None:
        if self.lost:
            raise Stale(f"the claim on job {job.id} may be lost: nobody has renewed it for ten seconds")

    def log(self, job: RunJob, text: str) -> None:
        self.log_run(job.token, text)

    def progress(self, job: RunJob, done: float, total: float | None, note: str | None) -> None:
        self._progress = {"token": job.token, "done": done, "total": total, "note": note and note[:LONGEST_NOTE]}
        now = time.monotonic()
        if now >= self._progress_at:
            self._progress_at = now + PROGRESS_EVERY
            self.send_progress()

    def save_checkpoint(self, job: RunJob, checkpoint: str) -> None:
        body = {"job": job.id, "token": job.token, "checkpoint": checkpoint}
        # Kept until its job is settled: a helper must be told it again (decision 10).
        data = self.checkpoints[job.token] = frames.encode(frames.CHECKPOINT, body)
        self.channel.deliver(data)

    def recover(self, seconds: float | None) -> None:
        self.recovering = seconds
        self.send_health()
