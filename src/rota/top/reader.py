"""The thread that reads the store: when it is notified, every few seconds, and when the screen asks.

No call of the store ever runs on the screen's thread. A store that is away is reported and retried.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import TYPE_CHECKING, Any

from rota.core.errors import RotaError
from rota.core.record import Record
from rota.top.snapshot import IN_HAND, read_snapshot, recent_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.engine.database import Listener
    from rota.store.events import Event
    from rota.store.store import Store
    from rota.top.snapshot import Snapshot

    Question = Callable[[Store], Any]

AT_MOST_EVERY = 0.5  # while much happens
AT_LEAST_EVERY = 5.0  # while nothing does
LONGEST = 3 * AT_LEAST_EVERY  # however large the store is
RETRY = 1.0


class Update(Record):
    """A snapshot with the events since the one before; `answer` is what the open screen asked for.

    The first one after opening the store (`is_first`) has the events of the last minutes.
    """

    snapshot: Snapshot
    events: list[Event]
    is_first: bool
    answer: Any = None


class Away(Record):
    """The store did not answer, for `reason`."""

    reason: str


class Reader(threading.Thread):
    """Reads snapshots in a loop; `report` is called with each, on this thread."""

    def __init__(self, open_store: Callable[[], Store], report: Callable[[Update | Away], object]) -> None:
        super().__init__(name="rota-top-reader", daemon=True)
        self._open_store = open_store
        self._report = report
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ended = False
        self._question: Question | None = None
        self.selection = IN_HAND

    def ask(self, question: Question | None) -> None:
        """Answer a question with every snapshot from now on; take one now."""
        self._question = question
        self.read_now()

    def select(self, selection: str) -> None:
        """List these jobs from now on; take a snapshot now."""
        self.selection = selection
        self.read_now()

    def read_now(self) -> None:
        os.write(self._wake_writer, b"!")

    def end(self) -> None:
        self._ended = True
        self.read_now()
        self.join(5)

    def run(self) -> None:
        while not self._ended:
            try:
                with self._open_store() as store:
                    self._follow(store)
            except Exception as problem:
                self._report(Away(in_words(problem)))
                self._wait(None, RETRY)

    def _follow(self, store: Store) -> None:
        """Take snapshots until the end, or until the store is away."""
        listener = store.database.listen(events=True)
        try:
            with store.database.read():
                cursor, events = store.events.last(), recent_events(store)
            is_first, is_asked, due = True, True, 0.0
            while not self._ended:
                while page := store.events.after(cursor):
                    events, cursor = events + page, page[-1].cursor
                if events or is_asked or time.monotonic() >= due:
                    took = self._read(store, events, is_first)
                    events, is_first = [], False
                    due = time.monotonic() + min(LONGEST, max(AT_LEAST_EVERY, 100 * took))
                    self._pause(max(AT_MOST_EVERY, 10 * took))
                is_asked = self._wait(listener, due - time.monotonic())
        finally:
            listener.close()

    def _read(self, store: Store, events: list[Event], is_first: bool) -> float:
        """Take and report a snapshot; return how long it took, so that a large store is read less often."""
        began, question = time.monotonic(), self._question
        snapshot = read_snapshot(store, self.selection)
        answer = question(store) if question else None
        took = time.monotonic() - began
        self._report(Update(snapshot, events, is_first, answer))
        return took

    def _pause(self, seconds: float) -> None:
        """Wait without regard to notifications; the screen may still ask."""
        if self._wait(None, seconds):
            self.read_now()

    def _wait(self, listener: Listener | None, seconds: float) -> bool:
        """Wait until the store notifies, the screen asks or the time is over; return whether the screen asked."""
        watched, notified = [self._wake_reader], -1 if listener is None else listener.fileno()
        if notified >= 0:
            watched.append(notified)
        elif listener is not None:  # without notifications the store has to be polled
            seconds = min(seconds, 2 * AT_MOST_EVERY)
        readable, _, _ = select.select(watched, [], [], max(0.0, seconds))
        if listener is not None and (notified < 0 or notified in readable):
            listener.wait(0)  # drains notifications, and reconnects a listener that was lost
        if self._wake_reader in readable:
            os.read(self._wake_reader, 65536)
            return True
        return False


def in_words(problem: Exception) -> str:
    """Describe an error in a sentence: a traceback would spoil the screen."""
    if isinstance(problem, RotaError | OSError):
        return str(problem)
    return f"a bug in rota, please report it: {type(problem).__name__}: {problem}"
