"""The thread that beats and renews, whatever the handler does."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from rota.core.errors import RotaError, UnknownWorker

if TYPE_CHECKING:
    from rota.store.store import Store
    from rota.worker.inprocess.claim_session import Life

NEWS_EVERY, TRY_AGAIN = 1.0, 1.0


class Beats:
    """Beats from `with` to the end of its block, on a connection of its own. News of a job is told within a second."""

    def __init__(self, life: Life, store: Store, every: float) -> None:
        self._life = life
        self._store = store
        self._every = every
        self._woken = threading.Event()
        self._is_news = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="rota-beats", daemon=True)

    def __enter__(self) -> Beats:
        self._life.on_news = self._tell_soon
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._woken.set()
        self._thread.join()

    def tick(self) -> None:
        """One beat, and a look at the claim in hand; the store may answer that the worker must register again."""
        life, held, id = self._life, self._life.held, self._life.worker_id
        try:
            life.heed(self._store.workers.heartbeat(id, life.metrics()))
        except UnknownWorker:
            life.register(self._store, unknown=id)
        if held is not None:
            held.tend(self._store)

    def _tell_soon(self) -> None:
        if not self._is_news:
            self._is_news = True
            self._woken.set()

    def _run(self) -> None:
        last, pause = time.monotonic(), self._every
        while True:
            due = last + (min(pause, NEWS_EVERY) if self._is_news else pause)
            self._woken.wait(max(0.0, due - time.monotonic()))
            self._woken.clear()
            if self._is_over:
                return
            if time.monotonic() < last + (min(pause, NEWS_EVERY) if self._is_news else pause):
                continue
            last, self._is_news = time.monotonic(), False
            pause = self._every if self._beat() else min(self._every, TRY_AGAIN)

    def _beat(self) -> bool:
        """Whether the store took it; nothing ends this thread but the worker's own end."""
        try:
            self.tick()
        except Exception as problem:
            kind = "" if isinstance(problem, RotaError) else f"{type(problem).__name__}: "
            self._life.warn(f"could not beat, and tries again: {kind}{problem}")
            return False
        return True
