"""The crews of a storm or a benchmark, in a folder of their own, with the ledger, an API and bash loops beside them."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from rota.lab.chaos import crew_processes
from rota.lab.chaos.handlers import KEYS, MARKS
from rota.lab.chaos.launchers import ORCHESTRATOR_STOPS_WITHIN, ApiProcess, BashLoops, OrchestratorProcess
from rota.lab.chaos.ledger_writer import LEDGER, LedgerWriter
from rota.lab.chaos.plan import LOOPS, MAIN
from rota.settings import load
from rota.store.open import open_store, within_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.demo.postgres_server import OwnServer
    from rota.lab.chaos.ledger_reader import Life
    from rota.lab.chaos.plan import Shape
    from rota.store.store import Store

APP = "rota.lab.chaos.handlers:app"
DATABASE, LEDGER_FILE, LEDGER_SOCKET = "rota.db", "ledger", "ledger.sock"
START_WITHIN = 60.0
CONNECTION_NAME = "PGAPPNAME"  # the variable by which PostgreSQL's clients name their connections

# A storm kills far more often than the default limits allow; what it tests is that the work survives.
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
    """Orchestrators over one database of their own, bash loops, an API, and the ledger process.

    Args:
        folder: Where everything is; it must exist.
        shape: Which programs run.
        app: The application of the workers.
        settings: Settings as environment variables.
        url: A PostgreSQL server, on which the crew gets a schema of its own. Without it, the database is in the folder.
        more: Further environment variables.
    """

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
        self.server: OwnServer | None = None  # set where the server may be crashed
        self.workers = sum(sum(pools.values()) for pools in shape.crews.values())
        self.mark = secrets.token_hex(8)
        self.schema = f"rota_chaos_{self.mark}" if url else None
        self.database = within_schema(url, self.schema) if url and self.schema else os.path.join(folder, DATABASE)
        self._plain = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        own = {"ROTA_DB": self.database, "XDG_RUNTIME_DIR": folder, LEDGER: LEDGER_SOCKET, KEYS: str(shape.keys)}
        own[crew_processes.MARK] = own[CONNECTION_NAME] = self.mark
        self.environment = {**self._plain, **settings, **own, **more}
        self.settings = load(environment=self.environment, start=folder)
        self.api = ApiProcess(folder, self.environment) if shape.behind_api else None
        self.orchestrators = {
            crew: OrchestratorProcess(
                crew, app, pools, folder, partial(self._environment_of, over_http=crew in shape.behind_api)
            )
            for crew, pools in shape.crews.items()
        }
        loops_environment = partial(self._environment_of, over_http=LOOPS in shape.behind_api, named=False)
        self.loops = BashLoops(shape.loops, folder, loops_environment)
        self._shape = shape
        os.makedirs(os.path.join(folder, MARKS), exist_ok=True)
        self._ledger_process = self._start_ledger()
        assert self._ledger_process.stdout is not None and self._ledger_process.stdin is not None
        self.ledger_writer = LedgerWriter(self._ledger_process.stdout, self._ledger_process.stdin)

    @property
    def ledger_path(self) -> str:
        return os.path.join(self.folder, LEDGER_FILE)

    @property
    def main(self) -> OrchestratorProcess:
        return self.orchestrators[MAIN]

    @property
    def behind_api(self) -> list[OrchestratorProcess]:
        """The orchestrators that reach only the API."""
        return [self.orchestrators[crew] for crew in self.orchestrators if crew in self._shape.behind_api]

    @property
    def unasked_exits(self) -> list[int]:
        """The exit codes of orchestrators that ended by themselves."""
        return [code for orchestrator in self.orchestrators.values() for code in orchestrator.unasked_exits]

    def open(self) -> Store:
        """Open the store, and create it if it does not exist."""
        return open_store(self.database, self.settings, make=True)

    def start(self) -> None:
        """Start everything. Only the API is waited for, because the crews behind it cannot start without it."""
        if self.api is not None:
            self.open().close()
            self.api.start()
            self.api.wait_until_up(START_WITHIN)
        for orchestrator in self.orchestrators.values():
            orchestrator.start()
        self.loops.start()

    def restart_ended(self) -> None:
        """Start every program again that ended by itself; the exit codes of orchestrators are noted."""
        for orchestrator in self.orchestrators.values():
            orchestrator.restart_if_ended()
        if self.api is not None:
            self.api.restart_if_ended()
        self.loops.restart_ended()

    def send(self, life: Life, number: signal.Signals) -> bool:
        """Signal a worker; return false if it had ended."""
        if life.is_supervised:
            return crew_processes.send(life.pid, self.mark, number)
        return self.loops.send(life.pid, number)

    def stop(self) -> tuple[float, int | None]:
        """Ask first the loops, then all orchestrators to stop.

        Returns:
            How many seconds the orchestrators took, and the first exit code that was not 0; None if a program did not
            end in time.
        """
        loops_left = self.loops.stop()
        asked = time.monotonic()
        for orchestrator in self.orchestrators.values():
            orchestrator.send(signal.SIGTERM)
        codes = [orchestrator.wait(ORCHESTRATOR_STOPS_WITHIN) for orchestrator in self.orchestrators.values()]
        took = time.monotonic() - asked
        if self.api is not None:
            self.api.stop()
        bad = [code for code in codes if code != 0]
        return took, bad[0] if bad else 0 if loops_left else None

    def wait_until_whole(self, store: Store, within: float = START_WITHIN) -> bool:
        """Wait until every slot has a worker that is up, every loop has registered, and there are no other workers."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            up = sum(slot.status == "up" for slot in store.slots.all())
            if up == self.workers and len(store.workers.list()) == self.workers + self._shape.loops:
                return True
            self.loops.restart_ended()
            time.sleep(0.02)
        return False

    def remove(self) -> None:
        """Delete the folder and the schema."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.schema is not None:
            from rota.store.postgres.open import remove

            remove(self.database, self.settings)

    def close(self) -> None:
        """End every process of the crew, whatever has happened. Idempotent."""
        self.loops.kill()
        for orchestrator in self.orchestrators.values():
            orchestrator.kill()
        if self.api is not None:
            self.api.kill()
        crew_processes.end_all(self.mark)
        assert self._ledger_process.stdin is not None and self._ledger_process.stdout is not None
        try:
            self._ledger_process.stdin.close()
        except BrokenPipeError:  # the ledger has ended, which was reported when something was written to it
            pass
        self._ledger_process.wait()
        self._ledger_process.stdout.close()

    def _environment_of(self, over_http: bool, named: bool = True) -> dict[str, str]:
        """The environment of a program. One with `named=False` keeps its connections when those of the crew are cut."""
        over_api = self.api.address(self.open) if over_http and self.api is not None else {}
        environment = {**self.environment, **over_api}
        if not named:
            del environment[CONNECTION_NAME]
        return environment

    def _start_ledger(self) -> subprocess.Popen[bytes]:
        """Start the ledger in the folder, so that the name of its socket can be relative: such names must be short."""
        return subprocess.Popen(
            [sys.executable, "-m", "rota.lab.chaos.ledger", LEDGER_FILE, LEDGER_SOCKET],
            cwd=self.folder,
            env=self._plain,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
