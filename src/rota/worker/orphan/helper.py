"""`python -m rota.worker.orphan`: the orchestrator's side of the frames for one worker whose orchestrator is gone.

The worker starts it, so the worker is its parent. Changes wait in order until the store has taken them, and the token
fences each of them: no newer claim is touched (decision 10).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from rota.core.claim import TIMEOUT, Failed, Returned
from rota.core.death import DEADLINE, EXIT_ORPHANED, EXITED, HEARTBEAT_TIMEOUT, LOST
from rota.core.errors import RotaError
from rota.core.frames import codec as frames
from rota.core.frames import outcomes
from rota.core.frames.messages import checkpoint, running_tokens, tokens
from rota.core.orchestrator import RENEW_EVERY
from rota.core.times import SECOND
from rota.process.host import since_boot
from rota.process.tree import end_family
from rota.process.watch import Parent
from rota.settings import load
from rota.store.open import open_store
from rota.store.workers.death import Death
from rota.worker import handler
from rota.worker.channel import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Outcome
    from rota.store.claims.exchange import Settled
    from rota.store.store import Store

CANCELLING = 6.0
REPORT_LOST_AFTER, RETRY_AFTER, LONGEST_OUTAGE, CHECK_EVERY = 10.0, 0.5, 600.0, 1.0
FINISHED = "finished alone after its orchestrator was gone"
DIED = "died after its orchestrator was gone"
TIMED_OUT = "ran past its time-out after its orchestrator was gone"
STOPPED = "was ended after its orchestrator was gone: it was stopped, and nobody heard of it"
TAKEN = "was ended after its orchestrator was gone: its claim was taken or called off"


class RunningJob:
    """A job that the worker runs. `cancels`: it can be cancelled; `end_by`: it was, and must have ended by then."""

    def __init__(self, job: int, token: int, deadline: float | None, cancels: bool) -> None:
        self.job = job
        self.token = token
        self.deadline = deadline
        self.cancels = cancels
        self.end_by: float | None = None


class Orphan:
    """Supervises one orphaned worker, until it is gone and its end is recorded."""

    def __init__(
        self,
        pipe: socket.socket,
        process: Parent,
        worker: str,
        slot: str,
        connect: Callable[[], Store],
        silence: float,
    ) -> None:
        self._pipe: socket.socket | None = pipe
        self._process = process
        self._worker = worker
        self._slot = slot
        self._connect = connect
        self._silence = silence
        self._store: Store | None = None
        self._decoder = frames.Decoder()
        self._first_frames: list[frames.Frame] = []
        self._has_begun = False
        self._pending: deque[Callable[[Store], None]] = deque()
        self._held: dict[int, RunningJob] = {}
        self._missing: set[int] = set()
        self._overdue: list[RunningJob] = []
        self._death: tuple[str, str] | None = None
        self._dismissed = False
        self._has_reported_loss = False
        self.is_over = False
        self._retry_at = self._renew_at = self._renewed_at = time.monotonic()
        self._outage_since: float | None = None
        self._stopped_since: float | None = None

    def supervise(self) -> int:
        """Supervise until the worker is gone and the store has everything; return the exit code."""
        while self._pending or not self.is_over:
            # This process must not wait for ever: the lease lapses by itself, and the job runs again.
            if self._outage_since is not None and time.monotonic() - self._outage_since > LONGEST_OUTAGE:
                return 1
            self._turn()
        return 0

    def _turn(self) -> None:
        """Wait for a frame, a death or a moment, and act on it."""
        watched = [] if self._pipe is None else [self._pipe.fileno()]
        if self._process.pidfd is not None and not self.is_over:
            watched.append(self._process.pidfd)
        readable(watched, self._patience(time.monotonic()))
        # Asked before the pipe is read to its end: a frame that comes in between must not be missed.
        is_gone = self._process.is_gone
        self._receive(to_the_end=is_gone)
        now = time.monotonic()
        if is_gone and not self.is_over:
            self._died()
        else:
            self._check_deadlines(now)
        if now >= self._retry_at:
            self._flush()
        if self._has_begun and not self._pending and not is_gone:
            self._check_claims(time.monotonic())
        if self._held and now - self._renewed_at >= REPORT_LOST_AFTER and not self._has_reported_loss:
            self._has_reported_loss = True
            self._send(frames.LOST, {})

    def _patience(self, now: float) -> float:
        moments = [now + CHECK_EVERY]
        if self._pending:
            moments.append(self._retry_at)
        elif self._held:
            moments.append(self._renew_at)
        moments += [due for job in self._held.values() if (due := job.end_by or job.deadline) is not None]
        return max(0.0, min(moments) - now)

    def _receive(self, to_the_end: bool) -> None:
        while self._pipe is not None:
            try:
                data = self._pipe.recv(1 << 18)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._pipe = None
            for frame in self._decoder.feed(data):
                self._take(frame)
            if not to_the_end:
                return

    def _take(self, frame: frames.Frame) -> None:
        """Take one frame. The first are a hello and as many reports as it announces, settled in one transaction."""
        if not self._has_begun:
            self._first_frames.append(frame)
            if len(self._first_frames) > _number(self._first_frames[0].body.get("told")):
                self._begin()
            return
        body, token = frame.body, _number(frame.body.get("token"))
        match frame.kind:
            case frames.DONE:
                self._settle(token, outcomes.decode(body))
            case frames.CHECKPOINT if token in self._held:
                self._pending.extend(self._save(checkpoint) for checkpoint in _checkpoints(body))
            case frames.RETURNED:
                for returned in tokens(body):
                    self._settle(returned, Returned())
            case frames.HEALTH:
                self._compare(running_tokens(body))
            case _:
                pass

    def _save(self, checkpoint: tuple[int, int, str]) -> Callable[[Store], None]:
        return lambda store: store.orphans.keep_checkpoint(self._worker, checkpoint)

    def _compare(self, running: set[int] | None) -> None:
        """Fail a job that two frames in a row do not name: its outcome was lost with a garbled line."""
        missing = set() if running is None else self._held.keys() - running
        # Twice: a heartbeat may overtake the outcome of a job that has just ended.
        for token in missing & self._missing:
            self._settle(token, Failed(outcomes.LOST_OUTCOME))
        self._missing = missing

    def _begin(self) -> None:
        self._has_begun = True
        hello, reports = self._first_frames[0].body, self._first_frames[1:]
        settled = [_settled(frame.body) for frame in reports if frame.kind == frames.DONE]
        kept = [
            checkpoint
            for frame in reports
            if frame.kind == frames.CHECKPOINT
            for checkpoint in _checkpoints(frame.body)
        ]
        ended = {token for _, token, _ in settled}
        for job in _running_jobs(hello, time.monotonic()):
            if job.token not in ended:
                self._held[job.token] = job
        running = frozenset(self._held)

        def begin(store: Store) -> None:
            # Read before the transaction: the fence counts from when the renewal began.
            began = since_boot()
            self._lose(running - store.orphans.begin(self._worker, running, settled, kept))
            if self._held or not running:
                self._renewed(began)

        self._pending.append(begin)

    def _settle(self, token: int, outcome: Outcome) -> None:
        job = self._held.pop(token, None)
        if job is not None:
            settled = (job.job, token, outcome)
            self._pending.append(lambda store: store.orphans.settle(self._worker, settled))

    def _check_deadlines(self, now: float) -> None:
        """Cancel a job that is past its time-out; if it cannot be cancelled or does not end, end its worker."""
        # Ending the worker ends all its jobs, so the first late one is enough.
        for job in self._held.values():
            if job.end_by is not None:
                is_late = now >= job.end_by
            elif job.deadline is None or now < job.deadline:
                continue
            else:
                is_late = not self._cancel(job, handler.DEADLINE)
            if is_late:
                self._overdue.append(job)
                self._end(DEADLINE, TIMED_OUT)
                return

    def _cancel(self, job: RunningJob, reason: str) -> bool:
        if job.cancels:
            job.end_by = time.monotonic() + CANCELLING
            self._send(frames.CANCEL, {"token": job.token, "reason": reason})
        return job.cancels

    def _check_claims(self, now: float) -> None:
        """Renew the claims; once there is none, the worker may leave."""
        if not self._held and not self._dismissed:
            self._dismissed = True
            self._send(frames.STOP, {})
        self._check_stopped(now)
        if self._held and now >= self._renew_at:
            self._renew()

    def _check_stopped(self, now: float) -> None:
        """End a worker that has been stopped for too long: it cannot even leave by itself."""
        if not self._process.is_stopped:
            self._stopped_since = None
        elif self._stopped_since is None:
            self._stopped_since = now
        elif now - self._stopped_since >= self._silence:
            self._end(HEARTBEAT_TIMEOUT, STOPPED)

    def _renew(self) -> None:
        began, claims = since_boot(), [(job.job, job.token) for job in self._held.values()]

        def renew(store: Store) -> None:
            self._lose(frozenset(self._held) - store.orphans.renew(self._worker, claims))
            if self._held:
                self._renewed(began)

        if not self._persist(renew):
            self._renew_at = time.monotonic() + RETRY_AFTER

    def _renewed(self, began: int) -> None:
        self._renewed_at, self._has_reported_loss = time.monotonic(), False
        self._renew_at = self._renewed_at + RENEW_EVERY / SECOND
        self._send(frames.RENEWED, {"at": began})

    def _lose(self, tokens: frozenset[int]) -> None:
        """End the runs of claims that were taken, and the worker with the last of them."""
        # Some may have ended since the store was asked.
        lost = [job for token in tokens if (job := self._held.pop(token, None))]
        if lost and not self._held:
            self._dismissed = True
            self._send(frames.LOST, {})
            self._end(LOST, TAKEN)
        for job in lost if self._held else ():
            self._cancel(job, handler.CANCELLED)

    def _end(self, reason: str, text: str) -> None:
        self._death = (reason, text)
        # What hides in other sessions is ended once the worker is gone.
        self._process.end_session()

    def _died(self) -> None:
        """End all that the worker started, now that it is gone, and only then record its death."""
        # The certificate releases its jobs, so nothing that ran them may be alive by then.
        self._process.end_session()
        end_family(self._worker)
        self.is_over = True
        if self._first_frames and not self._has_begun:
            self._begin()
        running, self._held = self._held, {}
        if self._death is not None:
            reason, text = self._death
        else:
            reason, text = (EXITED, FINISHED) if not running and self._has_begun else (LOST, DIED)
        timed_out = Failed(handler.TIMED_OUT, reason=TIMEOUT)
        last = [(late.job, late.token, timed_out) for late in self._overdue if late.token in running]
        has_exited = reason == EXITED
        code = EXIT_ORPHANED if has_exited else None
        death = Death(self._worker, self._slot, reason, text, code, asked=has_exited)
        self._pending.append(lambda store: store.orphans.end(death, last))

    def _flush(self) -> None:
        """Make the pending changes in order; what the store does not take is tried again after a pause."""
        while self._pending:
            if not self._persist(self._pending[0]):
                self._retry_at = time.monotonic() + RETRY_AFTER
                return
            self._pending.popleft()

    def _persist(self, change: Callable[[Store], None]) -> bool:
        """Make a change of the store; return False if it did not take it."""
        try:
            if self._store is None:
                self._store = self._connect()
            change(self._store)
        # Any of these may pass: a full disk, a database that is being restored.
        except RotaError as problem:
            print(f"{self._worker}: {problem}", file=sys.stderr)
            # Opened again next time: it may be another file after a restore.
            if self._store is not None:
                self._store.close()
                self._store = None
            if self._outage_since is None:
                self._outage_since = time.monotonic()
            return False
        self._outage_since = None
        return True

    def _send(self, kind: str, body: dict[str, object]) -> None:
        """Send a frame. The worker reads all the time, so that there is room for it."""
        try:
            if self._pipe is not None:
                self._pipe.send(frames.encode(kind, body))
        except OSError:
            pass


def _running_jobs(hello: dict[str, Any], now: float) -> list[RunningJob]:
    """Return the jobs that a worker runs, as its hello says."""
    documents, jobs = hello.get("in_hand"), []
    for document in documents if isinstance(documents, list) else ():
        match document:
            case {"job": int(job), "token": int(token)} if job == _number(job) and token == _number(token):
                left = document.get("seconds_left")
                deadline = now + left if isinstance(left, int | float) else None
                jobs.append(RunningJob(job, token, deadline, document.get("cancels") is True))
            case _:
                pass
    return jobs


def _settled(body: dict[str, Any]) -> Settled:
    return (_number(body.get("job")), _number(body.get("token")), outcomes.decode(body))


def _checkpoints(body: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Return the checkpoint in a frame, if it is valid."""
    text = checkpoint(body)
    return [] if text is None else [(_number(body.get("job")), _number(body.get("token")), text)]


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else 0


def main() -> int:
    """Run `python -m rota.worker.orphan`; return the exit code."""
    # Where the worker was started: its handler may have changed to a folder with other settings.
    os.chdir(os.environ["ROTA_FOLDER"])
    process = Parent(int(os.environ["ROTA_WORKER_PID"]))
    pipe = socket.socket(fileno=int(os.environ["ROTA_FRAME_FD"]))
    pipe.setblocking(False)
    worker, settings = os.environ["ROTA_WORKER_ID"], load()

    def connect() -> Store:
        return open_store(settings.db, settings, actor=worker)

    silence = settings.health.silent * settings.health.misses / SECOND
    return Orphan(pipe, process, worker, os.environ["ROTA_SLOT"], connect, silence).supervise()
