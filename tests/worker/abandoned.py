"""A worker whose orchestrator is killed: a real store, a real parent process that hands out jobs, a real SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from rota.core.frames import codec as frames
from rota.core.job import NewJob
from rota.settings import Settings
from rota.store.open import open_store
from tests.support.eventually import eventually
from tests.support.shell import environment
from tests.support.stores import url_of
from tests.worker.driven import SHOP

if TYPE_CHECKING:
    from typing import Any

    from rota.core.job import Job
    from rota.core.worker import Worker

# Claims what it is asked to, hands it out on a worker's pipe, and settles nothing.
PARENT = """
import json, os, socket, subprocess, sys
from rota.core.frames import codec as frames
from rota.settings import Settings
from rota.process.host import host_id
from rota.store.open import open_store
from rota.store.claims.exchange import Idle, Report
from rota.process.host import since_boot

path, room, fence, queue, concurrency = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
store = open_store(path, Settings())
id = store.orchestrators.join()
(slot,) = store.slots.take("main", host_id(), {queue: 1})
worker = store.orchestrators.register_worker(id, slot.name, queue)
store.orchestrators.came_up(worker, slot.name, concurrency)
ours, theirs = socket.socketpair()
told = {"FRAME_FD": str(theirs.fileno()), "SLOT": slot.name, "QUEUE": queue, "APP": "shop:app"}
told |= {"WORKER_ID": worker, "DB": path}
child = subprocess.Popen(
    [sys.executable, "-m", "rota.worker"],
    env={**os.environ, **{f"ROTA_{name}": value for name, value in told.items()}},
    stderr=subprocess.PIPE, pass_fds=(theirs.fileno(),), start_new_session=True,
)
theirs.close()
heard = b""
while b"HEALTH|" not in heard:
    heard += ours.recv(1 << 16)
claims = store.orchestrators.exchange(id, 0, Report([], [Idle(worker, queue, room, crowd=concurrency > 1)])).claims
jobs = [
    {"id": claim.job_id, "token": claim.token, "queue": queue, "kind": claim.kind, "title": claim.title,
     "payload": claim.payload_text, "timeout": claim.timeout, "attempt": claim.attempt, "max_attempts": 3,
     "checkpoint": claim.checkpoint_text, **({"fence": fence} if fence else {})}
    for claim in claims
]
ours.sendall(frames.encode(frames.RUN, {"jobs": jobs, "settled": None, "renewed_at": since_boot()}))
print(json.dumps([worker, child.pid]), flush=True)
for line in sys.stdin:
    ours.sendall(line.encode())
"""


class Abandoned:
    """One worker with jobs, and the orchestrator that the test may kill."""

    def __init__(self, folder: Path, kind: str, tasks: str = "") -> None:
        self.folder = folder
        self.url = url_of(kind, folder)
        (folder / "shop.py").write_text(SHOP + tasks)
        self.store = open_store(self.url, Settings(), make=True)
        self.worker_id, self.pid = "", 0
        self.env: dict[str, str] = {}
        self._parent: subprocess.Popen[str] | None = None

    def add(self, kind: str, **more: Any) -> int:
        return self.store.jobs.add(NewJob(kind, kind=kind, **more)).id

    def start(self, room: int = 1, fence: str = "", queue: str = "default", concurrency: int = 1) -> None:
        """Let a worker have so many of the jobs."""
        words = [sys.executable, "-c", PARENT, self.url, str(room), fence, queue, str(concurrency)]
        pipe = subprocess.PIPE
        self._parent = subprocess.Popen(
            words,
            cwd=self.folder,
            env=environment(**self.env),
            stdin=pipe,
            stdout=pipe,
            text=True,
            start_new_session=True,
        )
        assert self._parent.stdout is not None
        self.worker_id, self.pid = json.loads(self._parent.stdout.readline())

    def say(self, kind: str, **body: object) -> None:
        """Let the orchestrator say something else."""
        assert self._parent is not None and self._parent.stdin is not None
        self._parent.stdin.write(frames.encode(kind, body).decode())
        self._parent.stdin.flush()

    def orphan(self) -> None:
        """Kill the orchestrator."""
        if self._parent is not None:
            with self._parent as parent:
                parent.kill()
            self._parent = None

    def helper(self) -> int:
        """The process that looks after the worker; 0 while there is none."""
        found = []
        for path in glob(f"/proc/{self.pid}/task/*/children"):
            try:
                found += [int(child) for child in Path(path).read_text().split()]
            except FileNotFoundError:
                pass
        return next((child for child in found if "rota.worker.orphan" in words(child)), 0)

    def is_alone(self) -> bool:
        """Whether its claims hang on no orchestrator any more."""
        return self.worker().orchestrator is None

    def let_go(self, name: str) -> None:
        (self.folder / f"go-{name}").touch()

    def holds(self, name: str) -> None:
        eventually(lambda: f"hold {name}" in self.ledger())

    def ledger(self) -> list[str]:
        path = self.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def job(self, id: int) -> Job:
        return self.store.jobs.get(id)

    def worker(self) -> Worker:
        return self.store.workers.get(self.worker_id)

    def is_gone(self) -> bool:
        return not is_alive(self.pid)

    def is_over(self) -> bool:
        """Whether the worker is gone and the store knows it."""
        return self.is_gone() and self.worker().status in ("stopped", "dead")

    def end(self) -> None:
        """Leave nothing behind, whatever the test did."""
        self.orphan()
        for pid in (self.helper(), 0 if self.is_gone() else self.pid):
            if pid:
                os.kill(pid, signal.SIGKILL)
        self.store.close()


def is_alive(pid: int) -> bool:
    """Whether a process is there, and not only its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def words(pid: int) -> str:
    """What a living process was started with."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
