"""A folder in which scripts call `run_worker`: real processes, a ledger of what their handlers did, and the store."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rota.settings import Settings
from rota.store.open import open_store
from tests.support.eventually import eventually
from tests.support.shell import Shell, environment

if TYPE_CHECKING:
    from rota.core.job import Job

PRELUDE = """
import os, sys, time
from pathlib import Path
import rota

def note(text):
    with open("ledger", "a") as file:
        file.write(f"{text}\\n")

def wait_for(name):
    while not Path(name).exists():
        time.sleep(0.005)

def until(fact):
    while not fact():
        time.sleep(0.005)
"""


class Script:
    """One process that runs a script; what it says goes to a file."""

    def __init__(self, folder: Path, code: str, number: int, env: dict[str, str]) -> None:
        self._said = folder / f"said-{number}"
        with open(self._said, "wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PRELUDE + code],
                cwd=folder,
                env=environment(**env),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def said(self) -> str:
        return self._said.read_text()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> int:
        """Its exit code, once it has one."""
        return self._process.wait(60)

    def end(self) -> None:
        """End it and whatever it has started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(60)


class Workshop:
    """The folder, its database, and the scripts that were started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shell = Shell(folder)
        self.shell.say("init")
        self.store = open_store(str(self.shell.path), Settings())
        self._scripts: list[Script] = []

    def start(self, code: str, **env: str) -> Script:
        """Run a script here; beats are quick unless it says otherwise."""
        script = Script(self.folder, code, len(self._scripts), {"ROTA_HEARTBEAT_INTERVAL": "200ms", **env})
        self._scripts.append(script)
        return script

    def add(self, title: str = "a job", **fields: object) -> int:
        from rota.core.job import NewJob

        return self.store.jobs.add(NewJob(title, **fields)).id  # type: ignore[arg-type]

    def job(self, id: int) -> Job:
        return self.store.jobs.get(id)

    def ends(self, id: int, status: str = "done") -> Job:
        """The job, once it has that state."""
        eventually(lambda: self.job(id).status == status)
        return self.job(id)

    def notes(self) -> list[str]:
        path = self.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def noted(self, text: str) -> None:
        """Return once a handler has noted this."""
        eventually(lambda: text in self.notes())

    def touch(self, name: str) -> None:
        (self.folder / name).touch()

    def registered(self, count: int = 1) -> str:
        """The id of the living worker, once it is the nth that ever registered."""
        eventually(lambda: len(self.store.workers.list(gone_too=True)) == count and self.store.workers.list())
        return self.store.workers.list()[-1].id

    def freeze(self, script: Script) -> None:
        """Stop a process while it does not hold the write lock: one that does would stop everybody."""
        with open(f"{self.shell.path}.lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            script.signal(signal.SIGSTOP)
            eventually(lambda: set(_states(script.pid)) == {"T"})

    def is_idle(self, pid: int) -> bool:
        """Whether a process sleeps while it listens to the bell."""
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
        except FileNotFoundError:  # a descriptor was closed while we looked
            return False
        return any("inotify" in link for link in links)

    def close(self) -> None:
        for script in self._scripts:
            script.end()
        self.shell.end()
        self.store.close()


def _states(pid: int) -> list[str]:
    """The state of each thread of a process; T is stopped."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks]
