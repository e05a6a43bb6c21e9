"""The store thread: it owns the one connection and does one thing at a time, the most urgent first.

The loop never touches the store: it asks here, and goes on with the answer when there is one.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from rota.core.errors import RotaError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.store import Store

    Question = tuple[int, int, Callable[[Store], Any], Callable[[Any], None]]

T = TypeVar("T")
DEATH, RENEWAL, WORK, END = range(4)
RETRY_AFTER = 0.5


class Ledger:
    """Questions to the store in order of urgency; an answer wakes the loop through a descriptor."""

    def __init__(self, open_store: Callable[[], Store], on_trouble: Callable[[str], None]) -> None:
        self.wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._open = open_store
        self._on_trouble = on_trouble
        self._asked: queue.PriorityQueue[Question] = queue.PriorityQueue()
        self._answered: deque[Callable[[], None]] = deque()
        self._closing = threading.Event()
        self._count = 0
        self._thread = threading.Thread(target=self._serve, name="rota-store", daemon=True)
        self._thread.start()

    def ask(self, urgency: int, what: Callable[[Store], T], then: Callable[[T], None]) -> None:
        """Do `what` in the store's thread, then `then` with its answer in the loop's."""
        self._count += 1
        self._asked.put((urgency, self._count, what, then))

    def carry_on(self) -> None:
        """Go on with the answers that have come."""
        try:
            os.eventfd_read(self.wakeup)
        except BlockingIOError:
            pass
        while self._answered:
            self._answered.popleft()()

    def close(self, seconds: float) -> bool:
        """End the thread once all questions are answered; false if it did not end in time."""
        self.ask(END, lambda store: self._closing.set(), lambda _: None)
        self._thread.join(seconds)
        os.close(self.wakeup)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        with self._open() as store:
            while not self._closing.is_set():
                _, _, what, then = self._asked.get()
                answer = self._persist(what, store)
                self._answered.append(lambda then=then, answer=answer: then(answer))  # type: ignore[misc]
                os.eventfd_write(self.wakeup, 1)

    def _persist(self, what: Callable[[Store], Any], store: Store) -> Any:
        """The answer, however long the store is away; a refusal is an answer too."""
        while True:
            try:
                return what(store)
            except StoreError as problem:
                self._on_trouble(str(problem))
                self._closing.wait(RETRY_AFTER)
            except RotaError as problem:
                return problem
            except Exception as problem:  # a bug: the loop stops in good order rather than wait for ever
                return RotaError(f"the store thread stumbled: {type(problem).__name__}: {problem}")
