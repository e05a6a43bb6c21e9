"""The application of a storm: every handler writes to the ledger when it begins and when it ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import cache
from typing import TYPE_CHECKING

from rota.app import App
from rota.lab.chaos.ledger import LEDGER, LedgerWriter
from rota.lab.chaos.plan import COMMANDS, COROUTINES, FLAKY, FUNCTIONS, POISON, REMOTE, SOURCED, WORK, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.worker.context import Context

QUEUE = FUNCTIONS
SOURCE, MARKS, KEYS = "keys", "marks", "ROTA_CHAOS_KEYS"
COROUTINES_AT_ONCE = 5
COMMAND = [sys.executable, "-m", "rota.lab.chaos.programs", "job"]

app = App()
app.pool(COROUTINES, concurrency=COROUTINES_AT_ONCE)


class FailsOnce(Exception):
    """Raised by a flaky job at its first attempt."""


@cache
def ledger_writer() -> LedgerWriter:
    return LedgerWriter.connect(os.environ[LEDGER])


def register() -> None:
    """Write the worker's first line to the ledger."""
    ledger_writer().write("up", pid=os.getpid(), worker=os.environ["ROTA_WORKER_ID"], slot=os.environ["ROTA_SLOT"])


for queue in (FUNCTIONS, COROUTINES, COMMANDS, SOURCED, REMOTE):
    app.setup(queue=queue)(register)


@app.task(queue=FUNCTIONS)
def work(ms: int, ctx: Context) -> int:
    """Take a number of milliseconds."""
    begin(ctx)
    time.sleep(ms / 1000)
    end(ctx, "done")
    return ms


@app.task(queue=FUNCTIONS)
def flaky(ms: int, ctx: Context) -> int:
    """Fail at the first attempt."""
    begin(ctx)
    time.sleep(ms / 1000)
    if ctx.attempt == 1:
        end(ctx, "failed")
        raise FailsOnce("as planned")
    end(ctx, "done")
    return ms


@app.task(queue=FUNCTIONS)
def poison(ms: int, ctx: Context) -> None:
    """Kill the worker."""
    begin(ctx)
    time.sleep(ms / 1000)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(queue=COROUTINES, name=kind_of(WORK, COROUTINES))
async def work_coroutine(ms: int, ctx: Context) -> int:
    begin(ctx)
    await _sleep(ms)
    end(ctx, "done")
    return ms


@app.task(queue=COROUTINES, name=kind_of(FLAKY, COROUTINES))
async def flaky_coroutine(ms: int, ctx: Context) -> int:
    begin(ctx)
    await _sleep(ms)
    if ctx.attempt == 1:
        end(ctx, "failed")
        raise FailsOnce("as planned")
    end(ctx, "done")
    return ms


@app.task(queue=COROUTINES, name=kind_of(POISON, COROUTINES))
async def poison_coroutine(ms: int, ctx: Context) -> None:
    begin(ctx)
    await _sleep(ms)
    os.kill(os.getpid(), signal.SIGKILL)


@app.command(queue=COMMANDS, name=kind_of(WORK, COMMANDS), argv=[*COMMAND, WORK])
def work_command(ms: int) -> None: ...


@app.command(queue=COMMANDS, name=kind_of(FLAKY, COMMANDS), argv=[*COMMAND, FLAKY])
def flaky_command(ms: int) -> None: ...


@app.command(queue=COMMANDS, name=kind_of(POISON, COMMANDS), argv=[*COMMAND, POISON])
def poison_command(ms: int) -> None: ...


@app.task(queue=SOURCED)
def mark(key: str, ctx: Context) -> None:
    """Leave the mark that tells the source that this key is done."""
    begin(ctx)
    with open(os.path.join(MARKS, key), "w"):
        pass
    end(ctx, "done")


@app.source(queue=SOURCED, task=mark, name=SOURCE, every="500ms", low=10, batch=20)
def keys() -> Iterator[str]:
    """Yield the keys that have no mark yet."""
    done = set(os.listdir(MARKS)) if os.path.isdir(MARKS) else set()
    yield from (key for key in map(str, range(int(os.environ.get(KEYS, "0")))) if key not in done)


def begin(ctx: Context) -> None:
    ledger_writer().write("start", pid=os.getpid(), worker=ctx.worker_id, job=ctx.job_id, token=ctx.token)


def end(ctx: Context, outcome: str) -> None:
    ledger_writer().write(
        "end", pid=os.getpid(), worker=ctx.worker_id, job=ctx.job_id, token=ctx.token, outcome=outcome
    )


async def _sleep(ms: int) -> None:
    import asyncio  # only workers of coroutines need it

    await asyncio.sleep(ms / 1000)
