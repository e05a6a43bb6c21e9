"""A worker's claim session: its registration, the claim it holds, and the thread that renews both.

`ClaimSession` is shared by the job loop and the heartbeat thread; each has a store connection of its own.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.core import worker as workers
from rota.core.errors import RotaError, Stale, UnknownWorker
from rota.core.ids import printable
from rota.core.jsontext import Raw
from rota.process.host import since_boot
from rota.process.log import Log
from rota.process.system import wake_pipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.core.claim import Claim
    from rota.core.frames.assignment import RunJob
    from rota.core.times import Instant
    from rota.store.engine.database import Listener
    from rota.store.store import Store

LONGEST_NOTE = 200
CHANGES_EVERY, RETRY_AFTER = 1.0, 1.0
_POLL_WITHOUT_LISTENER = 0.05
_logger = logging.getLogger("rota.hooks")


class ClaimSession:
    """The worker's id, the claim it holds, and whether it should stop. Any thread may use it."""

    def __init__(self, store: Store, name: str, queue: str | None) -> None:
        self._store = store
        self.url = store.database.url
        # Read now: the application may change its folder.
        self.folder = os.getcwd()
        self._name = name
        self._queue = queue
        self._lock = threading.RLock()
        self._wake_reader, self._wake_writer = wake_pipe()
        self._stderr = Log()
        self.worker_id = ""
        self.held: HeldClaim | None = None
        self.stopping = False
        self.completed = 0
        self.on_change: Callable[[], None] = lambda: None

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Lend the connection of the loop and of the handler; threads take turns."""
        with self._lock:
            yield self._store

    def register(self, store: Store, unknown: str = "") -> None:
        """Register the worker, or register it again if its id is still the one that the store does not know."""
        with self._lock:
            # The loop and the heartbeats may both learn that the worker is unknown; one registration is enough.
            if self.worker_id == unknown:
                self.worker_id = store.workers.register(self._name, pid=os.getpid(), queue=self._queue).id
                self.log(f"works on {f'queue {self._queue}' if self._queue else 'all queues'}")

    def metrics(self) -> dict[str, object]:
        """Return what a heartbeat carries."""
        metrics: dict[str, object] = {"completed": self.completed}
        held = self.held
        return metrics if held is None else {**metrics, "busy": held.claim.job_id, **held.facts()}

    def on_advice(self, advice: str) -> None:
        """Follow the answer to a heartbeat. A pause needs nothing: the store hands out no job of a paused queue."""
        if advice == workers.STOP and not self.stopping:
            self.log("was asked to stop")
            self.stop()

    def stop(self) -> None:
        """Claim no more; safe in a signal handler."""
        self.stopping = True
        try:
            os.write(self._wake_writer, b"!")
        # The pipe is full, so the loop wakes up anyway.
        except BlockingIOError:
            pass

    def wait(self, listener: Listener, seconds: float) -> None:
        """Wait until the store notifies, the worker should stop or the time is over."""
        notified = listener.fileno()
        if notified < 0:
            seconds = min(seconds, _POLL_WITHOUT_LISTENER)
        descriptors = [self._wake_reader, *([notified] if notified >= 0 else [])]
        readable, _, _ = select.select(descriptors, [], [], max(0.0, seconds))
        if notified in readable:
            listener.wait(0)

    def log(self, text: str, run: str | None = None, level: int = logging.INFO) -> None:
        """Write a line to the log `rota.hooks`, or to stderr if the application has not configured logging."""
        if _logger.hasHandlers():
            _logger.log(level, "%s %s %s", self.worker_id, run or "-", printable(text))
        else:
            self._stderr(text, self._name, self.worker_id, run)

    def warn(self, text: str, run: str | None = None) -> None:
        self.log(text, run, logging.WARNING)

    def close(self) -> None:
        os.close(self._wake_reader)
        os.close(self._wake_writer)


class HeldClaim:
    """The claim of the current job: it renews itself, notices its loss, and serves the handler's context."""

    def __init__(self, session: ClaimSession, claim: Claim, now: Instant) -> None:
        self._session = session
        self._is_lost = False
        self._progress: dict[str, object] | None = None
        self._recovering: float | None = None
        self.is_over = False
        self._set(claim, now)

    @property
    def worker_id(self) -> str:
        return self.claim.worker_id

    @property
    def token(self) -> int:
        return self.claim.token

    @property
    def run_id(self) -> str:
        return self.claim.run_id

    @property
    def database(self) -> str:
        return self._session.url

    @property
    def folder(self) -> str:
        return self._session.folder

    @property
    def stopping(self) -> bool:
        return self._session.stopping

    @property
    def lost(self) -> bool:
        # By this machine's clock too, because the store may be away when the lease expires.
        return self._is_lost or since_boot() >= self._expires_at

    @property
    def recovering(self) -> float | None:
        return self._recovering

    def recover(self, seconds: float | None) -> None:
        self._recovering = seconds
        self._session.on_change()

    def renew(self, job: RunJob) -> None:
        """Renew now, for the handler."""
        with self._session.store() as store:
            self._renew(store)

    def log(self, job: RunJob, text: str) -> None:
        self._session.log(text, self.run_id)

    def progress(self, job: RunJob, done: float, total: float | None, note: str | None) -> None:
        note = note and note[:LONGEST_NOTE].encode("utf-8", "replace").decode()
        facts = {"done": done, "total": total, "note": note}
        self._progress = {name: value for name, value in facts.items() if value is not None}
        self._session.on_change()

    def save_checkpoint(self, job: RunJob, checkpoint: str) -> None:
        with self._session.store() as store:
            store.claims.checkpoint(self.claim, Raw(checkpoint))

    def facts(self) -> dict[str, object]:
        """Return what the worker's row shows of this run."""
        facts = {"progress": self._progress, "recovering": self._recovering}
        return {name: value for name, value in facts.items() if value is not None}

    def check(self, store: Store) -> None:
        """Renew the claim once a third of its lease is over; before that, check that it is still held."""
        try:
            if since_boot() >= self._renew_at:
                self._renew(store)
            else:
                store.claims.held(self.claim.job_id, token=self.claim.token)
        except Stale as problem:
            self._lose(problem)

    def _renew(self, store: Store) -> None:
        try:
            self._set(store.claims.renew(self.claim), store.now())
        except Stale as problem:
            self._lose(problem)
            raise

    def _set(self, claim: Claim, now: Instant) -> None:
        """Note a claim and its lease on this machine's clock, because the store may be away when it expires."""
        assert claim.lease_expires_at is not None
        remaining, local_now = claim.lease_expires_at - now, since_boot()
        self.claim = claim
        self._expires_at, self._renew_at = local_now + remaining, local_now + remaining // 3

    def _lose(self, problem: Stale) -> None:
        """Let the handler know, once. A claim that is being settled does not count as lost."""
        if not self.is_over and not self._is_lost:
            self._is_lost = True
            self._session.warn(f"the claim is lost: {problem}", self.run_id)


class Heartbeats:
    """A thread that sends heartbeats and renews the claim during a `with` block, on a connection of its own.

    Progress that a handler reports is sent within a second.
    """

    def __init__(self, session: ClaimSession, store: Store, every: float) -> None:
        self._session = session
        self._store = store
        self._every = every
        self._wake = threading.Event()
        self._has_changes = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="rota-heartbeats", daemon=True)

    def __enter__(self) -> Heartbeats:
        self._session.on_change = self._send_soon
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._wake.set()
        self._thread.join()

    def tick(self) -> None:
        """Send one heartbeat and check the held claim; register again if the store does not know the worker."""
        session, held, id = self._session, self._session.held, self._session.worker_id
        try:
            session.on_advice(self._store.workers.heartbeat(id, session.metrics()))
        except UnknownWorker:
            session.register(self._store, unknown=id)
        if held is not None:
            held.check(self._store)

    def _send_soon(self) -> None:
        if not self._has_changes:
            self._has_changes = True
            self._wake.set()

    def _run(self) -> None:
        last, interval = time.monotonic(), self._every
        while True:
            due = last + (min(interval, CHANGES_EVERY) if self._has_changes else interval)
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()
            if self._is_over:
                return
            # Woken by a report of progress: it is sent at most once a second.
            if time.monotonic() < last + (min(interval, CHANGES_EVERY) if self._has_changes else interval):
                continue
            last, self._has_changes = time.monotonic(), False
            interval = self._every if self._try_tick() else min(self._every, RETRY_AFTER)

    def _try_tick(self) -> bool:
        """Tick, whatever goes wrong; return whether the store answered. Only the end of the block ends this thread."""
        try:
            self.tick()
        except Exception as problem:
            kind = "" if isinstance(problem, RotaError) else f"{type(problem).__name__}: "
            self._session.warn(f"could not beat, and tries again: {kind}{problem}")
            return False
        return True
