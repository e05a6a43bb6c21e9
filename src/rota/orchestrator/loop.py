"""The loop: pidfds, pipes, signals, answers of the store and deadlines, in one thread that never blocks on any."""

from __future__ import annotations

import os
import selectors
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

LONGEST_SLEEP = 1.0


class Loop:
    """Calls back when something is readable, writable, signalled or due."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._signalled, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._on_signal: dict[int, Callable[[], None]] = {}
        self._previous: dict[int, object] = {}
        self.watch(self._signalled, self._hear_signals)

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def forget_all(self, *descriptors: int) -> None:
        """Watch these no longer; those that are not watched are no error."""
        for descriptor in descriptors:
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)

    def on_signal(self, number: signal.Signals, callback: Callable[[], None]) -> None:
        """A signal leaves a note; the loop acts on it."""
        self._on_signal[number] = callback
        self._previous[number] = signal.signal(number, _leave_note)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)

    def turn(self, until: float) -> None:
        """Wait until something happens, at most until this moment of the monotonic clock, and act on it."""
        patience = min(LONGEST_SLEEP, max(0.0, until - time.monotonic()))
        for key, _ in self._selector.select(patience):
            key.data()

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._selector.close()
        os.close(self._signalled)
        os.close(self._wakeup)

    def _hear_signals(self) -> None:
        try:
            numbers = os.read(self._signalled, 256)
        except BlockingIOError:
            return
        for number in numbers:
            self._on_signal.get(number, lambda: None)()


def _leave_note(_number: int, _frame: FrameType | None) -> None:
    """The number is in the wake-up pipe already."""
