"""The application of a crew that is measured; the queue is the one that `rota.lab.chaos` crews serve."""

from __future__ import annotations

import time

from rota.app import App
from rota.lab.chaos.handlers import QUEUE

app = App()


@app.task(queue=QUEUE)
def noop(n: int) -> None:
    """Nothing at all."""


@app.task(queue=QUEUE)
def moment() -> int:
    """When it began, on the clock that all processes share."""
    return time.monotonic_ns()


@app.task(queue=QUEUE)
def sleep(ms: int) -> None:
    """Takes so many milliseconds."""
    time.sleep(ms / 1000)


@app.task(queue=QUEUE)
def begun(ms: int) -> int:
    """When it began; takes so many milliseconds."""
    began = time.monotonic_ns()
    time.sleep(ms / 1000)
    return began
