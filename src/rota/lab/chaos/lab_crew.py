"""The crews under test, as a person runs them, in a folder of their own, with bash loops and an API beside them."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from rota.lab.chaos import crew_processes
from rota.lab.chaos.api import Api
from rota.lab.chaos.handlers import KEYS, MARKS
from rota.lab.chaos.ledger_writer import LEDGER, LedgerWriter
from rota.lab.chaos.loops import Loops
from rota.lab.chaos.orchestrator import Orchestrator
from rota.lab.chaos.plan import LOOPS, MAIN
from rota.settings import load
from rota.store.open import open_store, within_schema

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping

    from rota.demo.server import OwnServer
    from rota.lab.chaos.ledger_reader import Life
    from rota.lab.chaos.plan import Shape
    from rota.store.store import Store

APP = "rota.lab.chaos.handlers:app"
DATABASE, LEDGER_FILE, LEDGER_SOCKET = "rota.db", "ledger", "ledger.sock"
START_WITHIN = 60.0
NAMED = "PGAPPNAME"  # what PostgreSQL calls a connection

# A storm kills more than the defaults allow; what is tested is that work survives it.
SETTINGS = {
    "ROTA_RESTART_BACKOFF": "20ms",
    "ROTA_RESTART_WINDOW": "1s",
    "ROTA_RESTART_LIMIT": "1000000",
    "ROTA_RESTART_LIFETIME": "1000000",
    "ROTA_BACKOFF_FIRST": "100ms",
    "ROTA_BACKOFF_MOST": "1s",
    "ROTA_FRAME_INTERVAL": "250ms",
    "ROTA_SILENT_INTERVAL": "1s",
}


class LabCrew:
    """Orchestrators over one database of their own, loops, an API, and the ledger beside them."""

    def __init__(
        self,
        folder: str,
        shape: Shape,
        app: str = APP,
        settings: Mapping[str, str] = SETTINGS,
        url: str | None = None,
        **more: str,
    ) -> None:
        self.folder = folder
        self.limits = shape.limits
        self.server: OwnServer | None = None  # where it may be crashed
        self.workers = sum(sum(pools.values()) for pools in shape.crews.values())
        self.mark = secrets.token_hex(8)
        self.schema = f"rota_chaos_{self.mark}" if url else None
        self.database = within_schema(url, self.schema) if url and self.schema else os.path.join(folder, DATABASE)
        self._plain = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        own = {"ROTA_DB": self.database, "XDG_RUNTIME_DIR": folder, LEDGER: LEDGER_SOCKET, KEYS: str(shape.keys)}
        own[crew_processes.MARK] = own[NAMED] = self.mark
        self.environment = {**self._plain, **settings, **own, **more}
        self.settings = load(environment=self.environment, start=folder)
        self.api = Api(folder, self.environment) if shape.behind_api else None
        self.orchestrators = {
            crew: Orchestrator(crew, app, pools, folder, partial(self._reach, crew in shape.behind_api))
            for crew, pools in shape.crews.items()
        }
        self.loops = Loops(shape.loops, folder, partial(self._reach, LOOPS in shape.behind_api, unnamed=True))
        self._shape = shape
        os.makedirs(os.path.join(folder, MARKS), exist_ok=True)
        self._ledger_process = self._start_ledger()
        assert self._ledger_process.stdout is not None and self._ledger_process.stdin is not None
        self.ledger_writer = LedgerWriter(self._ledger_process.stdout, self._ledger_process.stdin)

    @property
    def ledger_path(self) -> str:
        return os.path.join(self.folder, LEDGER_FILE)

    @property
    def main(self) -> Orchestrator:
        return self.orchestrators[MAIN]

    @property
    def behind_api(self) -> list[Orchestrator]:
        return [each for crew, each in self.orchestrators.items() if crew in self._shape.behind_api]

    @property
    def unasked_exits(self) -> list[int]:
        return [code for each in self.orchestrators.values() for code in each.unasked_exits]

    def open(self) -> Store:
        return open_store(self.database, self.settings, make=True)

    def start(self) -> None:
        """Start everything; of the API it is waited for, because without it those behind it would not begin."""
        if self.api is not None:
            self.open().close()
            self.api.start()
            self.api.wait_until_up(START_WITHIN)
        for each in self.orchestrators.values():
            each.start()
        self.loops.start()

    def look(self) -> None:
        """An orchestrator that left by itself is noted and started again; an API and a loop are started again."""
        for each in self.orchestrators.values():
            each.look()
        if self.api is not None:
            self.api.look()
        self.loops.look()

    def send(self, life: Life, number: signal.Signals) -> bool:
        """Signal a worker; false when it had gone."""
        if life.is_supervised:
            return crew_processes.send(life.pid, self.mark, number)
        return self.loops.send(life.pid, number)

    def stop(self) -> tuple[float, int | None]:
        """Ask the loops, then all orchestrators to stop: how many seconds these took, and the first bad exit code."""
        left = self.loops.stop()
        asked = time.monotonic()
        for each in self.orchestrators.values():
            each.ask_to_stop()
        codes = [each.wait() for each in self.orchestrators.values()]
        took = time.monotonic() - asked
        if self.api is not None:
            self.api.stop()
        bad = [code for code in codes if code != 0]
        return took, bad[0] if bad else 0 if left else None

    def wait_until_whole(self, store: Store, within: float = START_WITHIN) -> bool:
        """Wait until every slot has a worker that is up, every loop has registered, and there are no others."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            up = sum(slot.status == "up" for slot in store.slots.all())
            if up == self.workers and len(store.workers.list()) == self.workers + self._shape.loops:
                return True
            self.loops.look()
            time.sleep(0.02)
        return False

    def remove(self) -> None:
        """Leave neither folder nor schema."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.schema is not None:
            from rota.store.postgres.open import remove

            remove(self.database, self.settings)

    def close(self) -> None:
        """Leave no process behind, whatever happened; a second time changes nothing."""
        self.loops.kill()
        for each in self.orchestrators.values():
            each.kill()
        if self.api is not None:
            self.api.kill()
        crew_processes.end_all(self.mark)
        assert self._ledger_process.stdin is not None and self._ledger_process.stdout is not None
        try:
            self._ledger_process.stdin.close()
        except BrokenPipeError:  # it is gone already, which has been told
            pass
        self._ledger_process.wait()
        self._ledger_process.stdout.close()

    def _reach(self, over_http: bool, unnamed: bool = False) -> dict[str, str]:
        """The environment of a process; over HTTP the API is its database. `unnamed`: its connections are not cut."""
        reach = {**self.environment, **(self.api.reach(self.open) if over_http and self.api is not None else {})}
        if unnamed:
            del reach[NAMED]
        return reach

    def _start_ledger(self) -> subprocess.Popen[bytes]:
        """The socket's name is relative to the folder, which is every process's current one: such names are short."""
        return subprocess.Popen(
            [sys.executable, "-m", "rota.lab.chaos.ledger", LEDGER_FILE, LEDGER_SOCKET],
            cwd=self.folder,
            env=self._plain,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
