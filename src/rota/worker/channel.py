"""A worker's end of its pipe, and the thread that reads it, sends heartbeats and ends the worker at its fence.

Outcomes always get through; reports are dropped when the pipe is full, so that they never block a handler.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from rota.core.death import EXIT_ORPHANED
from rota.core.frames import assignment
from rota.core.frames import codec as frames
from rota.process.host import since_boot
from rota.process.tree import end_session
from rota.worker.handler import STOPPED
from rota.worker.orphan import start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rota.worker.job_state import JobState

RECEIVE_AT_ONCE = 1 << 18
WRITE_PATIENCE = 1.0
RETRY_AFTER = 0.05
CHECK_FENCE_EVERY = CHECK_LOOP_EVERY = 0.5
BLOCKED = 1.0
RESTART_HELPER_AFTER = 0.5
HELPERS_AFTER_THE_JOB = 3
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Channel:
    """Sends and receives frames. Any thread may send: a report that does not fit is dropped whole, an outcome waits.

    The lock is never held while waiting for room, so nobody waits for it longer than one write takes.
    """

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._unsent = b""
        self._is_broken = False
        self._decoder = frames.Decoder()
        # As far as the reader knows: a broken pipe is noticed by whichever thread comes first.
        self.is_open = True

    def fileno(self) -> int:
        return self._pipe.fileno()

    @property
    def is_writing(self) -> bool:
        """Whether some thread is between two halves of a frame, so that this is no moment to interrupt it."""
        return self._lock.locked()

    def report(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Send a report if the pipe has room; return False if it was dropped."""
        data = frames.encode(kind, body)
        # The reader would count it as garbage, and garbage counts against the worker's health.
        if len(data) > frames.LARGEST_REPORT:
            return False
        with self._lock:
            self._flush()
            if self._unsent:
                return False
            self._unsent = data
            self._flush()
            return not self._is_broken

    def deliver(self, data: bytes) -> bool:
        """Send what must not be lost, however long the pipe is full; return False if nobody reads it any more."""
        with self._lock:
            self._unsent = self._unsent + data if self._unsent else data
            self._flush()
        while self._unsent:
            _poll([self._pipe.fileno()], select.POLLOUT, WRITE_PATIENCE)
            with self._lock:
                self._flush()
        return not self._is_broken

    def receive(self) -> list[frames.Frame]:
        """Return the frames that have arrived. At the end of the stream there are none, and `is_open` is False."""
        try:
            data = self._pipe.recv(RECEIVE_AT_ONCE)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self.is_open = bool(data)
        return self._decoder.feed(data)

    def switch(self, pipe: socket.socket, first: Callable[[], bytes]) -> bool:
        """Use another pipe from now on, whose first bytes are what `first` returns once no other thread can send."""
        with self._lock:
            self._pipe, self._is_broken = pipe, False
            self._decoder, self.is_open = frames.Decoder(), True
            # Half a frame for the old reader is dropped; `first` repeats what was not confirmed.
            self._unsent = first()
        return self.deliver(b"")

    def _flush(self) -> None:
        while self._unsent:
            try:
                sent = self._pipe.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:
                self._is_broken, self._unsent = True, b""
                return
            self._unsent = self._unsent[sent:]


class ChannelThread:
    """Takes frames and signals. `signals` is the pipe into which the interpreter writes the numbers of signals."""

    def __init__(self, state: JobState, signals: int, heartbeat_every: float) -> None:
        self._state = state
        self._channel = state.channel
        self._signals = signals
        self._heartbeat_every = heartbeat_every
        self._heartbeat_at = time.monotonic() + heartbeat_every
        self._environment: Mapping[str, str] = {**os.environ, "ROTA_FOLDER": state.folder}
        self._main = threading.main_thread().ident or 0
        self._helper: int | None = None
        self._helper_at = 0.0
        self._helper_tries = 0
        self._interrupt_at = 0.0
        self._has_fenced_jobs = False
        self._blocked_since: float | None = None

    def start(self) -> None:
        # A daemon: the main thread decides when the process ends.
        threading.Thread(target=self._run, name="rota-frames", daemon=True).start()

    def _run(self) -> None:
        while not self._state.may_leave.is_set():
            self._turn()

    def _turn(self) -> None:
        """Wait for a frame, a signal or a moment, and act on it."""
        state, channel = self._state, self._channel
        pipe = channel.fileno() if channel.is_open else -1
        ready = readable([self._signals, *([pipe] if pipe >= 0 else [])], self._patience(time.monotonic()))
        now = time.monotonic()
        if now >= self._heartbeat_at:
            state.send_progress()
            # A dropped report is repeated soon, so that a pipe that was full for a moment costs no heartbeat.
            self._heartbeat_at = now + (self._heartbeat_every if state.send_health() else RETRY_AFTER)
        if self._signals in ready and any(number in STOP_SIGNALS for number in _read(self._signals)):
            self._stop()
        if pipe < 0:
            if now >= self._helper_at:
                self._start_helper()
        elif pipe in ready:
            self._receive()
        self._interrupt(now)
        self._check_loop(now)
        # Only now, with the pipe read: this process may have been stopped, and a renewal may have waited in it.
        if state.is_past_fence(since_boot()):
            _end_sessions(state)

    def _patience(self, now: float) -> float:
        state = self._state
        until = self._heartbeat_at if self._channel.is_open else min(self._heartbeat_at, self._helper_at)
        patience = max(0.0, until - now)
        if state.stop_now and state.is_interruptible:
            return min(patience, RETRY_AFTER)
        if state.has_loop and (state.running or state.waiting):
            patience = min(patience, CHECK_LOOP_EVERY)
        return min(patience, CHECK_FENCE_EVERY) if self._has_fenced_jobs else patience

    def _receive(self) -> None:
        received = self._channel.receive()
        if not self._channel.is_open:
            self._on_orphaned()
        for frame in received:
            self._take(frame)

    def _take(self, frame: frames.Frame) -> None:
        state, body = self._state, frame.body
        match frame.kind:
            case frames.RUN:
                self._take_jobs(body)
            case frames.RECALL:
                with state.lock:
                    state.answer_recall()
            case frames.CANCEL:
                state.cancel(body.get("token"), str(body.get("reason")))
            case frames.STOP:
                state.stop_now = state.stop_now or body.get("now") is True
                self._stop()
                for token in tuple(state.running) if state.stop_now else ():
                    state.cancel(token, STOPPED)
                if state.is_orphaned:
                    state.may_leave.set()
            case frames.LOST:
                state.lost = True
            case frames.RENEWED:
                state.lost = False
                state.note_renewal(body.get("at"))
            case _:
                pass

    def _take_jobs(self, body: dict[str, Any]) -> None:
        """Take jobs to run one after another; what makes no sense as a job is left out."""
        state, documents, settled = self._state, body.get("jobs"), body.get("settled")
        decoded = map(assignment.decode, documents) if isinstance(documents, list) else ()
        jobs = [job for job in decoded if job is not None]
        if isinstance(settled, int):
            state.forget_settled(settled)
        state.note_renewal(body.get("renewed_at"))
        self._has_fenced_jobs = self._has_fenced_jobs or any(job.is_fenced for job in jobs)
        with state.lock:
            state.waiting.extend(jobs)
        # Sent before the orchestrator knew of the stop.
        if state.stopping:
            state.give_back()
        state.wake()

    def _stop(self) -> None:
        """Finish the current job, give back the rest, and leave; before the worker is ready, leave at once."""
        state = self._state
        # During the setup, which may take minutes, there is no job to finish.
        if not state.is_ready:
            os._exit(0)
        if not state.stopping:
            state.stopping = True
            state.wake()
            state.give_back()
            state.send_health()

    def _interrupt(self, now: float) -> None:
        """Once the time to finish is over, send a signal, so that the main thread raises `Interrupted`."""
        if self._state.stop_now and self._state.is_interruptible and now >= self._interrupt_at:
            self._interrupt_at = now + RETRY_AFTER
            signal.pthread_kill(self._main, signal.SIGTERM)

    def _check_loop(self, now: float) -> None:
        """Log once which coroutine keeps the event loop from turning, and where it is."""
        turned = self._state.loop_turned_at
        if turned is None or now - turned < BLOCKED or turned == self._blocked_since:
            return
        from rota.worker.coroutines import blocking

        self._blocked_since = turned
        job, where = blocking(self._main)
        culprit = f"{job.kind} of job {job.id}" if job else "something"
        blocked_for = f"{now - turned:.1f}s"
        text = f"{culprit} has kept the loop from turning for {blocked_for}, so that no other coroutine runs: {where}"
        job = job or next(iter(self._state.running.values()), None)
        self._state.log_run(job.token if job else 0, text)

    def _on_orphaned(self) -> None:
        """Go on without an orchestrator: what waits is not started, the current job continues with a helper."""
        state = self._state
        if not state.is_ready:
            os._exit(EXIT_ORPHANED)
        with state.lock:
            is_first = self._helper is None
            state.is_orphaned = True
            # Waiting jobs count: the helper releases them in the store, which is sooner than a lapsed lease.
            needs_helper = bool(state.running or state.waiting or state.unsettled)
            state.waiting.clear()
        state.wake()
        if is_first:
            start.stop_printing_to_nobody()
        if not needs_helper:
            state.may_leave.set()

    def _start_helper(self) -> None:
        """Start a helper and report everything to it; after the job has ended only a few times more (decision 10)."""
        state = self._state
        if self._helper is not None:
            start.reap(self._helper)
        if not state.running:
            self._helper_tries += 1
        if self._helper_tries > HELPERS_AFTER_THE_JOB:
            state.may_leave.set()
            return
        self._helper_at = time.monotonic() + RESTART_HELPER_AFTER
        try:
            self._helper, pipe = start.start(self._environment)
        except OSError:
            return
        self._channel.switch(pipe, lambda: start.first_frames(state, time.monotonic()))


def readable(descriptors: Iterable[int], seconds: float | None) -> set[int]:
    """Return those that can be read, or that have ended, as soon as there is one; None waits without limit."""
    return _poll(descriptors, select.POLLIN, seconds)


def _poll(descriptors: Iterable[int], event: int, seconds: float | None) -> set[int]:
    # Not `select.select`: a handler may have more files open than it can count.
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, event)
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else math.ceil(seconds * 1000))}


def _end_sessions(state: JobState) -> None:
    """End the worker and all that it started, because another worker may run its job now."""
    # Its commands first: nobody is left to end them once this process is gone.
    for leader in tuple(state.sessions):
        end_session(leader, signal.SIGKILL)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 256)
    except BlockingIOError:
        return b""
