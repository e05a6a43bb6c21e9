"""Waiting for descriptors; by poll, because a handler may have more files open than `select` can count."""

from __future__ import annotations

import math
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def readable(descriptors: Iterable[int], seconds: float) -> set[int]:
    """Those that can be read, or that have ended, as soon as one can."""
    return _wait(descriptors, select.POLLIN, seconds)


def writable(descriptor: int, seconds: float) -> bool:
    return bool(_wait([descriptor], select.POLLOUT, seconds))


def _wait(descriptors: Iterable[int], event: int, seconds: float) -> set[int]:
    poll = select.poll()
    for each in descriptors:
        poll.register(each, event)
    return {descriptor for descriptor, _ in poll.poll(math.ceil(seconds * 1000))}
