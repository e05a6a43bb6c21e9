"""The store thread: it owns the one connection and runs one request at a time, the most urgent first.

The loop never touches the store: it makes a request here, and continues with the answer (decision 9).
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from rota.core.errors import Replaced, RotaError, SchemaMismatch, StoreError
from rota.process.system import wake_pipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.store import Store

    Question = tuple[int, int, Callable[[Store], Any], Callable[[Any], None]]

T = TypeVar("T")
DEATH, RENEWAL, WORK, POLL, END = range(5)
RETRY_AFTER = (0.0, 0.05, 0.1, 0.2, 0.5)  # seconds: a lost connection is made again at once, a server is waited for
COMPLAIN_EVERY = 10.0


class StoreThread:
    """Runs requests to the store in order of urgency; an answer wakes the loop through a descriptor."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        on_trouble: Callable[[str], None],
        blocked_by: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.wakeup, self._wake = wake_pipe()
        self._open = open_store
        self._on_trouble = on_trouble
        self.blocked_by = blocked_by  # the process that keeps the store locked, as far as can be seen from outside
        self._asked: queue.PriorityQueue[Question] = queue.PriorityQueue()
        self._answered: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._closing = threading.Event()
        self._count = 0
        self._busy_since: float | None = None
        self._complained_at: float | None = None
        self._thread = threading.Thread(target=self._serve, name="rota-store", daemon=True)
        self._thread.start()

    def ask(self, urgency: int, what: Callable[[Store], T], then: Callable[[T], None]) -> None:
        """Call `what` in the store thread, then `then` with its answer in the loop."""
        self._count += 1
        self._asked.put((urgency, self._count, what, then))

    def submit(self, urgency: int, what: Callable[[Store], object]) -> None:
        """Call `what` in the store thread. Nobody waits for its answer; a refusal is logged."""
        self.ask(urgency, what, lambda answer: self._on_trouble(str(answer)) if isinstance(answer, RotaError) else None)

    def carry_on(self) -> None:
        """Continue with the answers that have come."""
        try:
            os.read(self.wakeup, 4096)
        except BlockingIOError:
            pass
        while self._answered:
            then, answer = self._answered.popleft()
            then(answer)

    def busy_for(self) -> float:
        """Return for how many seconds it has been at the same request."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    def close(self, seconds: float) -> bool:
        """End the thread once all requests are answered; return whether it ended in time."""
        self.submit(END, lambda store: self._closing.set())
        self._thread.join(seconds)
        self._closing.set()
        os.close(self.wakeup)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        store = self._persist(lambda _: self._open(), None)
        while not self._closing.is_set():
            _, _, what, then = self._asked.get()
            self._busy_since = time.monotonic()
            answer = store if isinstance(store, RotaError) else self._persist(what, store)
            self._busy_since = None
            self._answered.append((then, answer))
            self._wake_loop()
        if not isinstance(store, RotaError):
            store.close()
        os.close(self._wake)

    def _wake_loop(self) -> None:
        try:
            os.write(self._wake, b"!")
        except OSError:  # full: the loop will wake anyway; or closed: it is gone
            pass

    def _persist(self, what: Callable[[Any], Any], store: Store | None) -> Any:
        """Call until the store answers, however long it is away; a refusal is an answer too."""
        for tries in count():
            try:
                answer = what(store)
            except (SchemaMismatch, Replaced) as problem:
                self._complained_at = None  # it will not answer again
                return problem
            except StoreError as problem:
                self._complain(str(problem))
                if self._closing.wait(RETRY_AFTER[min(tries, len(RETRY_AFTER) - 1)]):
                    return problem
            except RotaError as problem:
                return problem
            except Exception as problem:  # a bug: the loop stops in good order rather than wait for ever
                return RotaError(f"the store thread stumbled: {type(problem).__name__}: {problem}")
            else:
                if self._complained_at is not None:
                    self._complained_at = None
                    self._on_trouble("the store answers again")
                return answer

    def _complain(self, text: str) -> None:
        """Report what is wrong, at once and then every few seconds."""
        now = time.monotonic()
        if self._complained_at is None or now - self._complained_at >= COMPLAIN_EVERY:
            self._complained_at = now
            self._on_trouble(f"{text}; trying again until it answers")
