"""Waiting for a fact: the only place where tests sleep."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Fact = TypeVar("Fact")


def eventually(fact: Callable[[], Fact], within: float = 30, every: float = 0.01) -> Fact:
    """Return the first true answer of `fact`. Fails if there was none within that many seconds."""
    deadline = time.monotonic() + within
    while True:
        answer = fact()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within} s: {getattr(fact, '__name__', fact)}, last answer {answer!r}")
        time.sleep(every)


async def in_time(fact: Callable[[], Fact], within: float = 30, every: float = 0.02) -> Fact:
    """Return the first true answer of `fact` without blocking the event loop."""
    deadline = time.monotonic() + within
    while True:
        answer = fact()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within} s: {getattr(fact, '__name__', fact)}, last answer {answer!r}")
        await asyncio.sleep(every)
