"""One worker life and the claim in its hand, shared by the loop that works and the thread that beats."""

from __future__ import annotations

import logging
import os
import select
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rota.core import worker as workers
from rota.core.errors import Stale
from rota.core.ids import printable
from rota.core.jsontext import Raw
from rota.process.boot_clock import since_boot
from rota.process.log import Log
from rota.process.system import wake_pipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rota.core.claim import Claim
    from rota.core.times import Instant
    from rota.store.engine.database import Listener
    from rota.store.store import Store

LONGEST_NOTE = 200
_NO_BELL = 0.05
log = logging.getLogger("rota.hooks")


class Life:
    """Who the worker is, what it holds, and whether it should stop. Any thread may ask and tell."""

    def __init__(self, store: Store, name: str, queue: str | None) -> None:
        self._store = store
        self.url = store.database.url
        self.folder = os.getcwd()
        self._name = name
        self._queue = queue
        self._lock = threading.RLock()
        self._woken, self._wake = wake_pipe()
        self._line = Log()
        self.worker_id = ""
        self.held: Held | None = None
        self.stopping = False
        self.completed = 0
        self.on_news: Callable[[], None] = lambda: None

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The connection of the loop and of the handler, whose threads take turns."""
        with self._lock:
            yield self._store

    def register(self, store: Store, unknown: str = "") -> None:
        """Begin; or begin again when the store no longer knows this id, unless the other thread has done so."""
        with self._lock:
            if self.worker_id == unknown:
                self.worker_id = store.workers.register(self._name, pid=os.getpid(), queue=self._queue).id
                self.say(f"works on {f'queue {self._queue}' if self._queue else 'all queues'}")

    def metrics(self) -> dict[str, object]:
        """What a beat carries."""
        told: dict[str, object] = {"completed": self.completed}
        held = self.held
        return told if held is None else {**told, "busy": held.claim.job_id, **held.told()}

    def heed(self, advice: str) -> None:
        """Do what a beat was answered with. Nothing is claimed from a paused queue anyway."""
        if advice == workers.STOP and not self.stopping:
            self.say("was asked to stop")
            self.stop()

    def stop(self) -> None:
        """Claim no more; safe in a signal handler."""
        self.stopping = True
        try:
            os.write(self._wake, b"!")
        except BlockingIOError:  # it is awake
            pass

    def wait(self, listener: Listener, seconds: float) -> None:
        """Until the bell rings, the worker should stop or the time is over."""
        bell = listener.fileno()
        if bell < 0:
            seconds = min(seconds, _NO_BELL)
        readable, _, _ = select.select([self._woken, *([bell] if bell >= 0 else [])], [], [], max(0.0, seconds))
        if bell in readable:
            listener.wait(0)

    def say(self, text: str, run: str | None = None, level: int = logging.INFO) -> None:
        """A line in the application's log; on stderr where it has set up none."""
        if log.hasHandlers():
            log.log(level, "%s %s %s", self.worker_id, run or "-", printable(text))
        else:
            self._line(text, self._name, self.worker_id, run)

    def warn(self, text: str, run: str | None = None) -> None:
        self.say(text, run, logging.WARNING)

    def close(self) -> None:
        os.close(self._woken)
        os.close(self._wake)


class Held:
    """The claim in hand: what the handler's context asks of it, and what was found out about it."""

    def __init__(self, life: Life, claim: Claim, now: Instant) -> None:
        self._life = life
        self._told_lost = False
        self._progress: dict[str, object] | None = None
        self._recovering: float | None = None
        self.is_over = False
        self._renewed(claim, now)

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
        return self._life.url

    @property
    def folder(self) -> str:
        return self._life.folder

    @property
    def stopping(self) -> bool:
        return self._life.stopping

    @property
    def lost(self) -> bool:
        return self._told_lost or since_boot() >= self._lapses_at

    @property
    def recovering(self) -> float | None:
        return self._recovering

    def recover(self, seconds: float | None) -> None:
        self._recovering = seconds
        self._life.on_news()

    def renew(self, job: Mapping[str, Any]) -> None:
        """Renew now, for the handler."""
        with self._life.store() as store:
            self._renew(store)

    def log(self, job: Mapping[str, Any], text: str) -> None:
        self._life.say(text, self.run_id)

    def progress(self, job: Mapping[str, Any], done: float, total: float | None, note: str | None) -> None:
        told = {"done": done, "total": total, "note": note and note[:LONGEST_NOTE].encode("utf-8", "replace").decode()}
        self._progress = {name: value for name, value in told.items() if value is not None}
        self._life.on_news()

    def keep(self, job: Mapping[str, Any], checkpoint: str) -> None:
        with self._life.store() as store:
            store.claims.checkpoint(self.claim, Raw(checkpoint))

    def told(self) -> dict[str, object]:
        """What readers of the worker's row may see of this run."""
        facts = {"progress": self._progress, "recovering": self._recovering}
        return {name: value for name, value in facts.items() if value is not None}

    def tend(self, store: Store) -> None:
        """Renew when a third of the lease is over, else look whether the claim still holds."""
        try:
            if since_boot() >= self._renew_at:
                self._renew(store)
            else:
                store.claims.held(self.claim.job_id, token=self.claim.token)
        except Stale as problem:
            self._lose(problem)

    def _renew(self, store: Store) -> None:
        try:
            self._renewed(store.claims.renew(self.claim), store.now())
        except Stale as problem:
            self._lose(problem)
            raise

    def _renewed(self, claim: Claim, now: Instant) -> None:
        """Count the lease on this machine's clock, because the store may be out of reach when it ends."""
        assert claim.lease_expires_at is not None
        left, here = claim.lease_expires_at - now, since_boot()
        self.claim, self._lapses_at, self._renew_at = claim, here + left, here + left // 3

    def _lose(self, problem: Stale) -> None:
        """Tell the handler, once; a claim that is being settled is not lost by that."""
        if not self.is_over and not self._told_lost:
            self._told_lost = True
            self._life.warn(f"the claim is lost: {problem}", self.run_id)
