"""A folder in which scripts call `run_worker`: real processes, a ledger of what their handlers did, and the store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rota.settings import Settings
from rota.store.open import open_store
from rota.store.postgres.database import PostgresDatabase
from tests.support.crews import states
from tests.support.eventually import eventually
from tests.support.shell import Shell, environment
from tests.support.stores import exports, rows

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

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.shell = Shell(folder, **exports(kind, folder))
        self.shell.make()
        self.url = self.shell.env.get("ROTA_DB", str(self.shell.path))
        self.store = open_store(self.url, Settings())
        self._scripts: list[Script] = []

    def start(self, code: str, **env: str) -> Script:
        """Run a script here; beats are quick unless it says otherwise."""
        given = {**self.shell.env, "ROTA_HEARTBEAT_INTERVAL": "200ms", **env}
        script = Script(self.folder, code, len(self._scripts), given)
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
        """Stop a process while it does not write: one that does would stop everybody."""
        with self.store.write(exclusive=True) as tx:
            tx.execute("queue.all")  # PostgreSQL has heard of it
            script.signal(signal.SIGSTOP)
            eventually(lambda: set(states(script.pid)) == {"T"})

    def refuse(self, table: str, when: str) -> None:
        """The database itself refuses such an update from now on."""
        trigger = f"CREATE TRIGGER trouble BEFORE UPDATE ON {table}"
        if self._is_server:
            body = "RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'trouble'; END $$"
            then = f"FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION trouble()"
            rows(self.store, f"CREATE FUNCTION trouble() {body}; {trigger} {then}")
        else:
            rows(self.store, f"{trigger} WHEN {when} BEGIN SELECT RAISE(ABORT, 'trouble'); END")

    def relent(self) -> None:
        """What was refused is taken again."""
        rows(self.store, "DROP FUNCTION trouble CASCADE" if self._is_server else "DROP TRIGGER trouble")

    @property
    def _is_server(self) -> bool:
        return isinstance(self.store.database, PostgresDatabase)

    def is_idle(self, pid: int) -> bool:
        """Whether a process sleeps while it listens to the bell."""
        if isinstance(self.store.database, PostgresDatabase):
            heard = f"LISTEN {self.store.database.schema}_work"
            return bool(rows(self.store, f"SELECT 1 FROM pg_stat_activity WHERE query = '{heard}'"))
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
