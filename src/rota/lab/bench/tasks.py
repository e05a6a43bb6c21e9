"""The application of a measured crew. Its queue is the one that crews of `rota.lab.chaos` serve."""

from __future__ import annotations

import time

from rota.app import App
from rota.lab.chaos.handlers import QUEUE

app = App()


@app.task(queue=QUEUE)
def noop(n: int) -> None:
    """Do nothing."""


@app.task(queue=QUEUE)
def moment() -> int:
    """Return when it began, on the clock that all processes share."""
    return time.monotonic_ns()


@app.task(queue=QUEUE)
def sleep(ms: int) -> None:
    """Take a number of milliseconds."""
    time.sleep(ms / 1000)


@app.task(queue=QUEUE)
def begun(ms: int) -> int:
    """Take a number of milliseconds, and return when it began."""
    began = time.monotonic_ns()
    time.sleep(ms / 1000)
    return began
