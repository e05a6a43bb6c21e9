"""Making a change again that the database undid because others were in the way."""

from __future__ import annotations

import time

from rota.core.errors import Contended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

TIMES = 20
_PAUSE = 0.002


def again(change: Callable[P, R]) -> Callable[P, R]:
    """For a method that is one transaction: made again as a whole, a little later each time, until it stands."""

    def make(*args: P.args, **kwargs: P.kwargs) -> R:
        for time_before in range(TIMES - 1):
            try:
                return change(*args, **kwargs)
            except Contended:
                time.sleep(_PAUSE * (time_before + 1) * (1 + time.monotonic_ns() // 1000 % 100 / 100))
        return change(*args, **kwargs)

    make.__name__, make.__doc__ = change.__name__, change.__doc__
    return make
