"""The application of a storm: every handler writes into the ledger before it begins and when it is through."""

from __future__ import annotations

import os
import signal
import time
from functools import cache
from typing import TYPE_CHECKING

from rota.app import App
from rota.chaos.pen import Pen

if TYPE_CHECKING:
    from rota.worker.context import Context

QUEUE = "storm"
LEDGER = "ROTA_CHAOS_LEDGER"

app = App()


class FailsOnce(Exception):
    """What a flaky job raises at its first attempt."""


@cache
def pen() -> Pen:
    return Pen.connect(os.environ[LEDGER])


@app.setup(queue=QUEUE)
def introduce() -> None:
    """A worker begins its life in the ledger."""
    pen().write("up", pid=os.getpid(), worker=os.environ["ROTA_WORKER_ID"], slot=os.environ["ROTA_SLOT"])


@app.task(queue=QUEUE)
def work(ms: int, ctx: Context) -> int:
    """Takes so many milliseconds."""
    begin(ctx)
    time.sleep(ms / 1000)
    end(ctx, "done")
    return ms


@app.task(queue=QUEUE)
def flaky(ms: int, ctx: Context) -> int:
    """Fails at its first attempt."""
    begin(ctx)
    time.sleep(ms / 1000)
    if ctx.attempt == 1:
        end(ctx, "failed")
        raise FailsOnce("as planned")
    end(ctx, "done")
    return ms


@app.task(queue=QUEUE)
def poison(ms: int, ctx: Context) -> None:
    """Kills its worker."""
    begin(ctx)
    time.sleep(ms / 1000)
    os.kill(os.getpid(), signal.SIGKILL)


def begin(ctx: Context) -> None:
    pen().write("start", pid=os.getpid(), worker=ctx.worker_id, job=ctx.job_id, token=ctx.token)


def end(ctx: Context, outcome: str) -> None:
    pen().write("end", pid=os.getpid(), worker=ctx.worker_id, job=ctx.job_id, token=ctx.token, outcome=outcome)
