"""The programs of a storm that run as processes of their own, besides rota and the ledger.

    python -m rota.lab.chaos.programs job work|flaky|poison < JOB
    python -m rota.lab.chaos.programs job loop < CLAIMED
    python -m rota.lab.chaos.programs life PID
    python -m rota.lab.chaos.programs hold DATABASE SECONDS

`job` is what commands and bash loops run once for each job; a loop passes what `rota ready --claim --json` prints,
which names the kind of job. `life` records the life of a bash loop, which cannot keep a connection to the ledger open
itself. `hold` holds the write lock of a database. Connections to the ledger close with their process, so the ledger has
its end whatever causes it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

from rota.lab.chaos.ledger import LEDGER, LedgerWriter
from rota.lab.chaos.plan import FLAKY, POISON

JOB, LIFE, HOLD = "job", "life", "hold"
LOOP = "loop"


def main(role: str, *words: str) -> int:
    if role == JOB:
        return run_job(*words)
    if role == LIFE:
        record_life(int(words[0]))
    else:
        hold_lock(words[0], float(words[1]))
    return 0


def run_job(kind: str) -> int:
    """Run the job on standard input; return the exit code."""
    job = json.load(sys.stdin)
    in_loop = kind == LOOP
    if in_loop:
        (job,) = job
        kind = job["kind"]
    worker, token = os.environ["ROTA_WORKER_ID"], int(os.environ["ROTA_CLAIM_TOKEN"])
    writer = LedgerWriter.connect(os.environ[LEDGER])
    execution = {"pid": os.getpid(), "worker": worker, "job": job["id"], "token": token}
    writer.write("start", own=True, **execution)
    time.sleep(job["payload"]["ms"] / 1000)
    if kind == POISON and in_loop:
        os.killpg(0, signal.SIGKILL)
    elif kind == POISON:
        _kill_worker(worker)
    outcome = "failed" if kind == FLAKY and job["attempts"] == 0 else "done"
    writer.write("end", outcome=outcome, **execution)
    return int(outcome == "failed")


def _kill_worker(worker: str) -> None:
    """Kill the worker that started us and wait to be ended; a parent that is not this worker any more is spared."""
    parent = os.getppid()
    descriptor = os.pidfd_open(parent)
    with open(f"/proc/{parent}/environ", "rb") as file:
        if f"ROTA_WORKER_ID={worker}".encode() in file.read().split(b"\0"):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    while True:
        signal.pause()


def record_life(pid: int) -> None:
    """Record that a bash loop is up, and keep the connection open until it ends."""
    try:
        loop = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    # A SIGKILL to the loop's process group must not end us with it.
    os.setsid()
    writer = LedgerWriter.connect(os.environ[LEDGER])
    writer.write("up", pid=pid, worker=os.environ["ROTA_WORKER_ID"], slot=os.environ["ROTA_SLOT"])
    select.select([loop], [], [])


def hold_lock(database: str, duration: float) -> None:
    """Hold the write lock of a database for that many seconds; print a line once it is held."""
    from rota.settings import load  # Jobs and loops need no store, and start often.
    from rota.store.open import open_store

    with open_store(database, load()) as store, store.database.write():
        print(flush=True)
        time.sleep(duration)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
