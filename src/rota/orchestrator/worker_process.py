"""The process of a worker, or of the HTTP API: in a session of its own, supervised by pidfd and frame socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from typing import TYPE_CHECKING

from rota import documents
from rota.core.claim import Failed, Returned
from rota.core.death import DEADLINE, RECYCLED, SETUP_FAILED, Exit
from rota.core.frames import assignment
from rota.core.frames import codec as frames
from rota.core.frames.messages import NO_KINDS
from rota.core.health import PENDING, Health
from rota.core.ids import run_id
from rota.core.slot import HTTP
from rota.core.times import SECOND
from rota.orchestrator.dispatch import LARGEST_WINDOW, SPAN
from rota.process.host import is_stopped, process_start
from rota.process.system import open_process
from rota.store.workers.crews import Process
from rota.store.workers.death import Death

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rota.core.claim import Outcome
    from rota.core.frames.assignment import Assignment
    from rota.core.times import Duration, Instant

TAIL = 4096
# A frame has room for what stands around its jobs, too.
LARGEST_JOB = frames.LARGEST - 1024
TOO_LARGE = "payload, checkpoint and earlier runs together are too large to be handed to a worker"
MOST_AT_ONCE = 64 * 1024  # of one worker's frames, before the others have their turn
LONGEST_ERROR = 2000
BY_US = "orchestrator"
CANCELLING = 6 * SECOND  # a second more than a command has between TERM and KILL


class WorkerProcess:
    """One worker life."""

    def __init__(
        self,
        slot: str,
        queue: str,
        worker_id: str,
        environment: Mapping[str, str],
        now: Instant,
        program: Sequence[str] = (),
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        told = {
            "ROTA_FRAME_FD": str(theirs.fileno()),
            "ROTA_SLOT": slot,
            "ROTA_QUEUE": queue,
            "ROTA_WORKER_ID": worker_id,
        }
        try:
            with theirs:
                self._process = subprocess.Popen(
                    program or [sys.executable, "-P", "-m", "rota.api" if queue == HTTP else "rota.worker"],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    env={**environment, **told},
                )
        except BaseException:
            ours.close()
            raise
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        self.slot = slot
        self.queue = queue
        self.worker_id = worker_id
        self.pid = self._process.pid
        self.pidfd = open_process(self.pid)
        self.pipe = ours
        self.errors = self._process.stderr
        self.health = Health(PENDING, now)
        self.started_at = now
        self.failing = False  # its last job failed
        self.trying = False  # it was handed jobs while its pool backed off
        self.usual = SPAN
        self.usual_bytes = 1
        self.held: deque[Assignment] = deque()
        self.job_started_at = now
        self.concurrency = 1
        self.kinds = self.cancels = self.wants_whole = NO_KINDS
        self.cancelled: dict[int, tuple[str, Instant]] = {}
        self._handed_at: dict[int, Instant] = {}
        self.settled: int | None = None
        self.missing: frozenset[int] = frozenset()  # what its last frame should have named and did not
        self.recall_answered: bool | None = None  # whether it has said what it has not started, where that is in doubt
        self.closed_at: Instant | None = None
        self.stopping = False  # it takes no more jobs: it was asked to leave, or said that it does
        self.cut = False
        self.recalled = False
        self.lost = False
        self.ending: str | None = None
        self.report: dict[str, object] = {}
        self.errors_closed = False
        self.tail = b""
        self.last_frame = ""
        self._decoder = frames.Decoder()
        self.reported_garbage = 0
        self.has_said_hello = False
        self._outbox = b""
        self._has_backlog = False
        self.on_backlog: Callable[[bool], None] = lambda _: None

    @property
    def process(self) -> Process:
        return Process(self.worker_id, self.pid, process_start(self.pid), self.slot)

    @property
    def names(self) -> tuple[str, str, str | None]:
        """Its slot, its id and its current run, for log lines."""
        return self.slot, self.worker_id, run_id(self.held[0].token) if self.held else None

    @property
    def garbage(self) -> int:
        """How many lines it wrote that are no frames."""
        return self._decoder.rubbish

    @property
    def running(self) -> list[Assignment]:
        """The jobs that it has started, as far as can be known: the first, or all if it runs several at a time."""
        return list(self.held) if self.concurrency > 1 else [self.held[0]] if self.held else []

    def deadline(self, held: Assignment) -> Instant | None:
        """Return when a running job is past its time-out."""
        return held.timeout and self._handed_at.get(held.token, self.job_started_at) + held.timeout

    def holding(self, token: object) -> Assignment | None:
        """Return the running job that has this token."""
        if self.held and self.held[0].token == token:
            return self.held[0]
        return next((held for held in self.running if held.token == token), None)

    def put_down(self, held: Assignment) -> None:
        """Remove a job that it no longer holds."""
        self.held.remove(held)
        if self.cancelled or self._handed_at:
            self.cancelled.pop(held.token, None)
            self._handed_at.pop(held.token, None)

    def read(self) -> tuple[list[frames.Frame], bool]:
        """Return the frames that have come, and whether the pipe is closed."""
        try:
            data = self.pipe.recv(MOST_AT_ONCE)
        except BlockingIOError:
            return [], False
        except OSError:
            return [], True
        before = self.garbage
        found = self._decoder.feed(data)
        if self.garbage > before:
            self.health = self.health.on_garbage()
        if found:
            self.last_frame = found[-1].kind
        return found, not data

    def send(self, kind: str, body: Mapping[str, object]) -> None:
        self._outbox += frames.encode(kind, body)
        self.flush()

    def hand(self, claims: Sequence[Assignment], now: Instant, renewed_at: Instant) -> list[tuple[Assignment, Outcome]]:
        """Hand out jobs in order, as many as a window may hold of payload; return those that were not, with why."""
        if not self.held:
            self.job_started_at, self.recalled = now, False
        told: list[str] = []
        left: list[tuple[Assignment, Outcome]] = []
        size = 0
        for claim in claims:
            whole = None if claim.whole is None else {**documents.job(claim.whole), "payload": None}
            job = assignment.encode(claim, whole)
            if not _fits(job):
                left.append((claim, Failed(TOO_LARGE, again=False)))
                continue
            size += len(job)
            if told and size > LARGEST_WINDOW:
                if self.concurrency == 1:
                    left.append((claim, Returned()))
                    continue
                self._run(told, renewed_at)
                told, size = [], len(job)
            told.append(job)
            self.held.append(claim)
            if self.concurrency > 1:
                self._handed_at[claim.token] = now
        self.usual_bytes = max(1, size // len(claims))
        if told:
            self._run(told, renewed_at)
        return left

    def _run(self, jobs: Sequence[str], renewed_at: Instant) -> None:
        settled = "null" if self.settled is None else self.settled
        frame = f'{frames.RUN}|{{"jobs":[{",".join(jobs)}],"settled":{settled},"renewed_at":{renewed_at}}}\n'
        self._outbox += frame.encode("utf-8", "replace")
        self.flush()

    def cancel(self, held: Assignment, reason: str, now: Instant) -> bool:
        """Ask it to end one running job, and give it time; return false if its handler cannot be cancelled."""
        if held.kind not in self.cancels:
            return False
        if held.token not in self.cancelled:
            self.cancelled[held.token] = (reason, now + CANCELLING)
            self.send(frames.CANCEL, {"token": held.token, "reason": reason})
        return True

    def stalled(self, by: Duration) -> None:
        """Move its deadlines by the time for which this process itself was stopped."""
        self.job_started_at += by
        self._handed_at = {token: at + by for token, at in self._handed_at.items()}
        self.cancelled = {token: (reason, until + by) for token, (reason, until) in self.cancelled.items()}
        self.health = self.health.moved(by)
        if self.closed_at is not None:
            self.closed_at += by

    def recall(self) -> None:
        """Ask it to give back what it has not started; it answers with the tokens."""
        self.recalled = True
        self.send(frames.RECALL, {})

    def ask_to_stop(self) -> None:
        """Ask it to give back what it has not started, finish its current job, and leave."""
        if not self.stopping:
            self.stopping = True
            self.recall()
            self.send(frames.STOP, {"now": False})

    def cut_short(self, number: signal.Signals) -> None:
        """End it now: its time to finish is over, and what it still holds goes back."""
        self.stopping = self.cut = True
        if number != signal.SIGKILL:
            self.send(frames.STOP, {"now": True})
        self.signal(number)

    def flush(self) -> None:
        """Write the outbox as far as there is room; call `on_backlog` when something must wait, and when not."""
        while self._outbox:
            try:
                sent = self.pipe.send(self._outbox)
            except BlockingIOError:
                break
            except OSError:
                self._outbox = b""
                break
            self._outbox = self._outbox[sent:]
        if bool(self._outbox) != self._has_backlog:
            self._has_backlog = bool(self._outbox)
            self.on_backlog(self._has_backlog)

    def read_errors(self) -> bytes:
        """Return what it wrote to stderr; the tail is kept for the death certificate."""
        try:
            data = os.read(self.errors.fileno(), 65536)
        except (BlockingIOError, OSError):
            return b""
        self.tail = (self.tail + data)[-TAIL:]
        return data

    def signal(self, number: signal.Signals) -> None:
        """Signal the whole session; the child is reaped only by us, so its number is still its own."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def reap(self) -> tuple[Exit, str]:
        """Reap it once its pidfd is readable; return how it ended and what it used."""
        try:
            _, status, usage = os.wait4(self.pid, 0)
        except ChildProcessError:
            self._process.returncode = 0  # so that nobody waits for it again
            return Exit(None, None), json.dumps({})
        code = os.waitstatus_to_exitcode(status)
        self._process.returncode = code
        spent = {"cpu_s": round(usage.ru_utime + usage.ru_stime, 3), "peak_mb": round(usage.ru_maxrss / 1024, 1)}
        return (Exit(None, -code) if code < 0 else Exit(code, None)), json.dumps(spent)

    def last_frames(self) -> list[frames.Frame]:
        """Return the frames that it wrote before it died."""
        said: list[frames.Frame] = []
        closed = False
        while not closed:
            try:
                self.pipe.recv(1, socket.MSG_PEEK)
            except OSError:  # nothing more is in it, though someone else may hold its other end
                break
            found, closed = self.read()
            said += found
        return said

    def death(self, ended: Exit, usage: str) -> Death:
        """Describe its end for the store: what it was ended for, or how it ended by itself."""
        return Death(
            self.worker_id,
            self.slot,
            self.ending or ended.reason,
            self._why(ended),
            ended.code,
            ended.signal,
            asked=self.stopping and self.ending is None and ended.reason != RECYCLED,
            cut=self.cut,
            sent_by=BY_US if self.cut or self.ending else None,
            usage=usage,
            last_frame=self.last_frame or None,
            stderr_tail=self.tail.decode(errors="replace"),
            overdue=tuple(token for token, (reason, _) in self.cancelled.items() if reason == DEADLINE),
        )

    def _why(self, ended: Exit) -> str:
        """Return how it ended; after a failed setup with its last line on stderr, which names the reason."""
        *_, last = self.tail.decode(errors="replace").strip().splitlines() or [""]
        return f"{ended.text}: {last[:LONGEST_ERROR]}" if ended.reason == SETUP_FAILED and last else ended.text

    def is_stopped(self) -> bool:
        """Whether the process is stopped, as by SIGSTOP."""
        return is_stopped(self.pid)

    def close(self) -> None:
        os.close(self.pidfd)
        self.pipe.close()
        self.errors.close()


def _fits(job: str) -> bool:
    """Whether a frame has room for it; a character may take four bytes."""
    return len(job) <= LARGEST_JOB // 4 or len(job.encode("utf-8", "replace")) <= LARGEST_JOB
