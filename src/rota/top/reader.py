"""The thread that looks at the store: when its bell rings, now and then, and when the screen asks.

No call of the store ever runs on the screen's thread. A store that is away is told once per try, and tried again.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import TYPE_CHECKING, Any

from rota.core.errors import RotaError
from rota.core.record import Record
from rota.top.look import IN_HAND, lately, look

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.engine.database import Listener
    from rota.store.events import Event
    from rota.store.store import Store
    from rota.top.look import Look

    Question = Callable[[Store], Any]

AT_MOST_EVERY = 0.5  # while much happens
AT_LEAST_EVERY = 5.0  # while nothing does
LONGEST = 3 * AT_LEAST_EVERY  # however large the store is
RETRY = 1.0


class Seen(Record):
    """What a look found, with the events since the one before; `answer` is what the open screen asked for.

    `is_first`: of a store that was just opened; the events are then those of the last minutes.
    """

    look: Look
    events: list[Event]
    is_first: bool
    answer: Any = None


class Away(Record):
    """The store did not answer, for this reason."""

    reason: str


class Reader(threading.Thread):
    """Looks again and again, and tells what it found; `tell` is called on this thread."""

    def __init__(self, open_store: Callable[[], Store], tell: Callable[[Seen | Away], object]) -> None:
        super().__init__(name="rota-look", daemon=True)
        self._open_store = open_store
        self._tell = tell
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ended = False
        self._question: Question | None = None
        self.selection = IN_HAND

    def ask(self, question: Question | None) -> None:
        """Answer this with every look from now on, and look at once."""
        self._question = question
        self.look_now()

    def select(self, selection: str) -> None:
        """List these jobs from now on."""
        self.selection = selection
        self.look_now()

    def look_now(self) -> None:
        os.write(self._wake, b"!")

    def end(self) -> None:
        self._ended = True
        self.look_now()
        self.join(5)

    def run(self) -> None:
        while not self._ended:
            try:
                with self._open_store() as store:
                    self._look_on(store)
            except Exception as problem:
                self._tell(Away(in_words(problem)))
                self._wait(None, RETRY)

    def _look_on(self, store: Store) -> None:
        """Look until the end, or until the store is away."""
        listener = store.database.listen(events=True)
        try:
            with store.database.read():
                cursor, news = store.events.last(), lately(store)
            is_first, asked, due = True, True, 0.0
            while not self._ended:
                while page := store.events.after(cursor):
                    news, cursor = news + page, page[-1].cursor
                if news or asked or time.monotonic() >= due:
                    took = self._look(store, news, is_first)
                    news, is_first = [], False
                    due = time.monotonic() + min(LONGEST, max(AT_LEAST_EVERY, 100 * took))
                    self._pause(max(AT_MOST_EVERY, 10 * took))
                asked = self._wait(listener, due - time.monotonic())
        finally:
            listener.close()

    def _look(self, store: Store, news: list[Event], is_first: bool) -> float:
        """Look and tell; how long it took, so that a large store is looked at less often."""
        began, question = time.monotonic(), self._question
        found = look(store, self.selection)
        answer = question(store) if question else None
        took = time.monotonic() - began
        self._tell(Seen(found, news, is_first, answer))
        return took

    def _pause(self, seconds: float) -> None:
        """Let some time pass, whatever rings; the screen may still ask."""
        if self._wait(None, seconds):
            self.look_now()

    def _wait(self, listener: Listener | None, seconds: float) -> bool:
        """Until the bell rings, the screen asks, or so long; whether the screen asked."""
        watched, bell = [self._woken], -1 if listener is None else listener.fileno()
        if bell >= 0:
            watched.append(bell)
        elif listener is not None:  # where nothing can be heard, look rather often
            seconds = min(seconds, 2 * AT_MOST_EVERY)
        readable, _, _ = select.select(watched, [], [], max(0.0, seconds))
        if listener is not None and (bell < 0 or bell in readable):
            listener.wait(0)  # forgets the rings, and opens a bell again that was lost
        if self._woken in readable:
            os.read(self._woken, 65536)
            return True
        return False


def in_words(problem: Exception) -> str:
    """What went wrong, for people: a thread that fails leaves no traceback in the middle of a screen."""
    if isinstance(problem, RotaError | OSError):
        return str(problem)
    return f"a bug in rota, please report it: {type(problem).__name__}: {problem}"
