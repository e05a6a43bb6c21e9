"""Waiting for descriptors; by poll, because a handler may have more files open than `select` can count."""

from __future__ import annotations

import math
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def readable(descriptors: Iterable[int], seconds: float | None) -> set[int]:
    """Those that can be read, or that have ended, as soon as one can; None: however long that takes."""
    return _wait(descriptors, select.POLLIN, seconds)


def writable(descriptor: int, seconds: float) -> bool:
    return bool(_wait([descriptor], select.POLLOUT, seconds))


def _wait(descriptors: Iterable[int], event: int, seconds: float | None) -> set[int]:
    poll = select.poll()
    for each in descriptors:
        poll.register(each, event)
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else math.ceil(seconds * 1000))}
