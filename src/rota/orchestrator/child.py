"""A worker process as its orchestrator sees it: started by exec in a session of its own, watched by pidfd and pipe."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections import deque
from typing import TYPE_CHECKING

from rota.core import frame as frames
from rota.core.death import Exit
from rota.core.health import PENDING, Health
from rota.orchestrator.handout import Window
from rota.store.deaths import Death

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.times import Instant
    from rota.store.orchestrators import Handout

TAIL = 4096
LARGEST_WINDOW = 256 * 1024


class Child:
    """One worker life."""

    def __init__(self, slot: str, queue: str, worker_id: str, environment: Mapping[str, str], now: Instant) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        told = {
            "ROTA_FRAME_FD": str(theirs.fileno()),
            "ROTA_SLOT": slot,
            "ROTA_QUEUE": queue,
            "ROTA_WORKER_ID": worker_id,
        }
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rota.worker"],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**environment, **told},
            )
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        self.slot = slot
        self.queue = queue
        self.worker_id = worker_id
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid)
        self.pipe = ours
        self.errors = self._process.stderr
        self.health = Health(PENDING, now)
        self.window = Window()
        self.held: deque[Handout] = deque()
        self.job_started_at = now
        self.stopping = False
        self.errors_closed = False
        self.ending: str | None = None
        self.tail = b""
        self._decoder = frames.Decoder()
        self._outbox = b""

    def read(self) -> tuple[list[frames.Frame], bool]:
        """Frames that have come, and whether the pipe is closed."""
        try:
            data = self.pipe.recv(1 << 18)
        except BlockingIOError:
            return [], False
        except OSError:
            return [], True
        before = self._decoder.rubbish
        found = self._decoder.feed(data)
        if self._decoder.rubbish > before:
            self.health = self.health.babble()
        return found, not data

    def send(self, kind: str, body: Mapping[str, object]) -> None:
        self._outbox += frames.encode(kind, body)
        self.flush()

    def hand(self, claims: list[Handout], now: Instant) -> None:
        """Hand out jobs, in order; a frame holds at most so many bytes of payload, or one job."""
        if not self.held:
            self.job_started_at = now
        self.held += claims
        jobs: list[dict[str, object]] = []
        size = 0
        for claim in claims:
            size += len(claim.payload_json or "")
            if jobs and size > LARGEST_WINDOW:
                self.send(frames.RUN, {"jobs": jobs})
                jobs, size = [], len(claim.payload_json or "")
            jobs.append(_told(claim))
        self.send(frames.RUN, {"jobs": jobs})

    def ask_to_stop(self) -> None:
        """Give back what is not started, finish the job in hand, and leave."""
        if not self.stopping:
            self.stopping = True
            self.send(frames.RECALL, {})
            self.send(frames.STOP, {})

    def flush(self) -> bool:
        """Write what waits; true when all is written."""
        while self._outbox:
            try:
                sent = self.pipe.send(self._outbox)
            except BlockingIOError:
                return False
            except OSError:
                self._outbox = b""
                return True
            self._outbox = self._outbox[sent:]
        return True

    def read_errors(self) -> bytes:
        """What the worker wrote to stderr; its tail is kept for the certificate."""
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
        except ProcessLookupError:
            pass

    def reap(self) -> Exit:
        """How it ended; call it once its pidfd is readable."""
        code = self._process.wait()
        return Exit(None, -code) if code < 0 else Exit(code, None)

    def last_frames(self) -> list[frames.Frame]:
        """What it said before it died."""
        said: list[frames.Frame] = []
        while True:
            found, closed = self.read()
            said += found
            if closed or not found:
                return said

    def death(self, ended: Exit) -> Death:
        """Its end as it is written down: what we ended it for, or how it ended by itself."""
        tail = self.tail.decode(errors="replace")
        asked = self.stopping and self.ending is None
        reason = self.ending or ended.reason
        return Death(self.worker_id, self.slot, reason, ended.text, ended.code, ended.signal, asked, tail)

    def is_stopped(self) -> bool:
        """Whether the process is stopped, as by SIGSTOP."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
        except OSError:
            return False

    def close(self) -> None:
        os.close(self.pidfd)
        self.pipe.close()
        self.errors.close()


def _told(claim: Handout) -> dict[str, object]:
    return {
        "id": claim.job_id,
        "token": claim.token,
        "queue": claim.queue,
        "kind": claim.kind,
        "title": claim.title,
        "payload": claim.payload_json,
        "attempt": claim.attempt,
        "max_attempts": claim.max_attempts,
        "timeout": claim.timeout,
        "checkpoint": claim.checkpoint_json,
    }
