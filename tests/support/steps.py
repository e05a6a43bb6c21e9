"""How much Python a call runs, counted in lines: a bound that holds on any machine, however busy."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class TooManySteps(AssertionError):
    """A call ran more lines than it may."""


class Steps:
    """Counts the lines that this thread runs within the block, and ends it at the first one beyond `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0

    def __enter__(self) -> Steps:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *problem: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count > self.most:
                raise TooManySteps(f"more than {self.most:,} lines")
        return self._trace


def steps(call: Callable[[], object], most: int = 1_000_000) -> int:
    """Return how many lines a call runs. Raises `TooManySteps` beyond `most`."""
    with Steps(most) as counted:
        call()
    return counted.count
