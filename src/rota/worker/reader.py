"""The thread that reads a worker's pipe, says every few seconds that the worker lives, and minds its fence."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from rota.core.death import EXIT_ORPHANED
from rota.core.frames import assignment
from rota.core.frames import codec as frames
from rota.process import group
from rota.process.boot_clock import since_boot
from rota.worker.handler import STOPPED
from rota.worker.orphan import start
from rota.worker.poll import readable

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from rota.worker.job_state import Life

SOON = 0.05
FENCE_LOOK = LOOP_LOOK = 0.5
BLOCKED = 1.0
TRY_AGAIN = 0.5
TRIES_AFTER_THE_JOB = 3
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Reader:
    """Takes frames and signals for a life. `notes` is where the interpreter writes the numbers of signals."""

    def __init__(self, life: Life, pipe: socket.socket, notes: int, every: float) -> None:
        self._life = life
        self._pipe: socket.socket | None = pipe
        self._notes = notes
        self._every = every
        self._decoder = frames.Decoder()
        self._beat_at = time.monotonic() + every
        self._environment: Mapping[str, str] = {**os.environ, "ROTA_FOLDER": life.folder}
        self._main = threading.main_thread().ident or 0
        self._helper: int | None = None
        self._start_at = 0.0
        self._interrupt_at = 0.0
        self._tries = 0
        self._fences = False
        self._blocked_since: float | None = None

    def start(self) -> None:
        threading.Thread(target=self._listen, name="rota-frames", daemon=True).start()

    def _listen(self) -> None:
        while not self._life.may_leave.is_set():
            self._turn()

    def _turn(self) -> None:
        """Wait for a frame, a signal or a moment, and act on it."""
        life, pipe = self._life, self._pipe
        heard = [self._notes] if pipe is None else [self._notes, pipe.fileno()]
        ready = readable(heard, self._patience(time.monotonic()))
        now = time.monotonic()
        if now >= self._beat_at:
            life.tell_progress()
            self._beat_at = now + (self._every if life.tell_health() else SOON)
        if self._notes in ready and any(number in STOP_SIGNALS for number in _read(self._notes)):
            self._stop()
        if pipe is None:
            if now >= self._start_at:
                self._start_helper()
        elif pipe.fileno() in ready:
            self._receive(pipe)
        self._interrupt(now)
        self._mind_the_loop(now)
        if life.is_past_its_fence(since_boot()):  # after all that was said is heard: we may have been stopped
            _end_sessions(life)

    def _patience(self, now: float) -> float:
        life = self._life
        until = self._beat_at if self._pipe is not None else min(self._beat_at, self._start_at)
        patience = max(0.0, until - now)
        if life.stop_now and life.running:
            return min(patience, SOON)
        if life.has_loop and (life.in_hand or life.waiting):
            patience = min(patience, LOOP_LOOK)
        return min(patience, FENCE_LOOK) if self._fences else patience

    def _receive(self, pipe: socket.socket) -> None:
        try:
            data = pipe.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._go_on_alone()
        for frame in self._decoder.feed(data):
            self._take(frame)

    def _take(self, frame: frames.Frame) -> None:
        life, body = self._life, frame.body
        match frame.kind:
            case frames.RUN:
                self._take_jobs(body)
            case frames.RECALL:
                with life.hand:
                    life.answer_recall()
            case frames.CANCEL:
                life.cancel(body.get("token"), str(body.get("reason")))
            case frames.STOP:
                life.stop_now = life.stop_now or body.get("now") is True
                self._stop()
                for token in tuple(life.in_hand) if life.stop_now else ():
                    life.cancel(token, STOPPED)
                if life.orphaned:
                    life.may_leave.set()
            case frames.LOST:
                life.lost = True
            case frames.RENEWED:
                life.lost = False
                life.renewed(body.get("at"))
            case _:
                pass

    def _take_jobs(self, body: dict[str, Any]) -> None:
        """Jobs to run one after another; what makes no sense as a job is not taken."""
        life, documents, settled = self._life, body.get("jobs"), body.get("settled")
        decoded = map(assignment.decode, documents) if isinstance(documents, list) else ()
        jobs = [job for job in decoded if job is not None]
        if isinstance(settled, int):
            life.forget(settled)
        life.renewed(body.get("renewed_at"))
        self._fences = self._fences or any(job.is_fenced for job in jobs)
        with life.hand:
            life.waiting.extend(jobs)
        if life.stopping:
            life.give_back()
        life.wake()

    def _stop(self) -> None:
        """Finish the job in hand, give back the rest, and leave; while nothing was ever in hand, leave at once."""
        life = self._life
        if not life.ready:
            os._exit(0)
        if not life.stopping:
            life.stopping = True
            life.wake()
            life.give_back()
            life.tell_health()

    def _interrupt(self, now: float) -> None:
        """When the time to finish is over: a signal lets the main thread raise, as soon as it is fit to."""
        if self._life.stop_now and self._life.running and now >= self._interrupt_at:
            self._interrupt_at = now + SOON
            signal.pthread_kill(self._main, signal.SIGTERM)

    def _mind_the_loop(self, now: float) -> None:
        """Say once which coroutine keeps the loop from turning, and where it is."""
        turned = self._life.turned_at
        if turned is None or now - turned < BLOCKED or turned == self._blocked_since:
            return
        from rota.worker.coroutines import blocking

        self._blocked_since = turned
        job, where = blocking(self._main)
        who = f"{job.kind} of job {job.id}" if job else "something"
        text = f"{who} has kept the loop from turning for {now - turned:.1f}s, so that no other coroutine runs: {where}"
        job = job or next(iter(self._life.in_hand.values()), None)
        self._life.log_run(job.token if job else 0, text)

    # orphaned

    def _go_on_alone(self) -> None:
        """Nobody is on the other end: what waits is not started, the job in hand runs on with someone else's help."""
        life = self._life
        if not life.ready:
            os._exit(EXIT_ORPHANED)
        self._pipe, self._decoder = None, frames.Decoder()
        with life.hand:
            first = self._helper is None
            life.orphaned = True
            needed = bool(life.in_hand or life.waiting or life.unsettled)
            life.waiting.clear()
        life.wake()
        if first:
            start.stop_printing_to_nobody()
        if not needed:
            life.may_leave.set()

    def _start_helper(self) -> None:
        """Start one, and tell it all; after the job has ended only a few times more."""
        life = self._life
        if self._helper is not None:
            start.reap(self._helper)
        if not life.in_hand:
            self._tries += 1
        if self._tries > TRIES_AFTER_THE_JOB:
            life.may_leave.set()
            return
        self._start_at = time.monotonic() + TRY_AGAIN
        try:
            self._helper, self._pipe = start.start(self._environment)
        except OSError:
            return
        life.reporter.switch(self._pipe, lambda: start.first_words(life, time.monotonic()))


def _end_sessions(life: Life) -> None:
    """Nobody may run this job beside us: the worker and all that it started end now."""
    for leader in tuple(life.sessions):
        group.end(leader, signal.SIGKILL)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 256)
    except BlockingIOError:
        return b""
