"""The loop: descriptors, signals and one deadline. It never touches the store, and a signal only leaves a note."""

from __future__ import annotations

import os
import selectors
import signal
import time
from typing import TYPE_CHECKING

from rota.core.times import SECOND
from rota.process.system import wake_pipe

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from rota.core.times import Instant

LONGEST_SLEEP = 1.0
STALL = 2.0


class EventLoop:
    """Calls back when something is readable, writable, signalled or due."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._signalled, self._wakeup = wake_pipe()
        self._on_signal: dict[int, Callable[[], None]] = {}
        self._previous: dict[int, object] = {}
        self._woke = time.monotonic()
        self.watch(self._signalled, self._read_signals)

    @property
    def woke_at(self) -> Instant:
        """When it last woke. Nobody is judged by a later time: only the next turn can notice a stall."""
        return round(self._woke * SECOND)

    def watch(self, descriptor: int, on_read: Callable[[], None], on_write: Callable[[], None] | None = None) -> None:
        """Call back when there is something to read; and, once asked for by `want_write`, when there is room."""
        self._selector.register(descriptor, selectors.EVENT_READ, (on_read, on_write))

    def want_write(self, descriptor: int, wanted: bool) -> None:
        key = self._selector.get_map().get(descriptor)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
        if key is not None and key.events != events:
            self._selector.modify(descriptor, events, key.data)

    def forget_all(self, *descriptors: int) -> None:
        """Stop watching these; it is no error if one is not watched."""
        for descriptor in descriptors:
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)

    def on_signal(self, number: signal.Signals, callback: Callable[[], None]) -> None:
        """A signal leaves a note; the loop acts on it."""
        self._on_signal[number] = callback
        self._previous[number] = signal.signal(number, _leave_note)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)

    def turn(self, until: float, on_stall: Callable[[float], None] = lambda _: None) -> None:
        """Wait until something happens, at most until this moment of the monotonic clock, and act on it.

        Before it acts, `on_stall` is called with the seconds for which this process itself was stopped, or had no
        processor.
        """
        before = time.monotonic()
        patience = min(LONGEST_SLEEP, max(0.0, until - before))
        ready = self._selector.select(patience)
        after = time.monotonic()
        stalled = stall(before - self._woke, after - before, patience)
        self._woke = after
        if stalled:
            on_stall(stalled)
        for key, mask in ready:
            on_read, on_write = key.data
            if mask & selectors.EVENT_WRITE and on_write is not None and self._is_watched(key):
                on_write()
            if mask & selectors.EVENT_READ and self._is_watched(key):
                on_read()

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._selector.close()
        os.close(self._signalled)
        os.close(self._wakeup)

    def _is_watched(self, key: selectors.SelectorKey) -> bool:
        """Whether it still is: what was done just now may have closed it, and its number may be another's already."""
        known = self._selector.get_map().get(key.fd)
        return known is not None and known.data is key.data

    def _read_signals(self) -> None:
        for number in os.read(self._signalled, 256):
            self._on_signal.get(number, lambda: None)()


def stall(worked: float, waited: float, patience: float) -> float:
    """Return for how long the loop was stopped, from the seconds it worked and waited and those it meant to wait."""
    lost = max(0.0, waited - patience)
    return (worked if worked > STALL else 0.0) + (lost if lost > STALL else 0.0)


def _leave_note(_number: int, _frame: FrameType | None) -> None:
    """The number is in the wake-up pipe already."""
