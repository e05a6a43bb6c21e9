"""The program that the commands and the bash loops of a storm run, once for each job; it writes to the ledger itself.

    python -m rota.lab.chaos.job_command work|flaky|poison < JOB
    python -m rota.lab.chaos.job_command loop < CLAIMED

A bash loop passes what `rota ready --claim --json` prints, which names the kind of job. The connection to the ledger
closes with the process, so the ledger has its end whatever causes it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from rota.lab.chaos.ledger_writer import LEDGER, LedgerWriter
from rota.lab.chaos.plan import FLAKY, POISON

LOOP = "loop"


def main() -> int:
    (role,) = sys.argv[1:]
    job = json.load(sys.stdin)
    in_loop = role == LOOP
    if in_loop:
        (job,) = job
        role = job["kind"]
    worker, token = os.environ["ROTA_WORKER_ID"], int(os.environ["ROTA_CLAIM_TOKEN"])
    writer = LedgerWriter.connect(os.environ[LEDGER])
    execution = {"pid": os.getpid(), "worker": worker, "job": job["id"], "token": token}
    writer.write("start", own=True, **execution)
    time.sleep(job["payload"]["ms"] / 1000)
    if role == POISON and in_loop:
        os.killpg(0, signal.SIGKILL)
    elif role == POISON:
        _kill_worker(worker)
    outcome = "failed" if role == FLAKY and job["attempts"] == 0 else "done"
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


if __name__ == "__main__":
    sys.exit(main())
