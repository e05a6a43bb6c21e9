"""The crews of a storm or a benchmark, in a folder of their own, with the ledger, an API and bash loops beside them."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from rota.core.access import READ, WORK
from rota.lab.chaos import crew_processes
from rota.lab.chaos.handlers import KEYS, MARKS
from rota.lab.chaos.ledger import LEDGER, LedgerWriter
from rota.lab.chaos.plan import LOOPS, MAIN
from rota.settings import load
from rota.store.open import open_store, within_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
LOOP_SCRIPT = os.path.join(os.path.dirname(__file__), "loop.sh")
STARTED_WITHIN = 3.0
ORCHESTRATOR_STOPS_WITHIN = 60.0
API_STOPS_WITHIN = LOOPS_STOP_WITHIN = 30.0


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


class Program:
    """A Python module that runs as a process. `environment` is asked for at each start."""

    def __init__(
        self, words: Sequence[str], folder: str, log: str, environment: Callable[[], Mapping[str, str]]
    ) -> None:
        self.log = os.path.join(folder, log)
        self._words = [sys.executable, "-m", *words]
        self._folder = folder
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process; None while it is not started."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it without waiting until it is up."""
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._words,
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        """Return the exit code of a process that has ended; None for one that runs or was never started."""
        return self._process.poll() if self._process is not None else None

    def send(self, number: signal.Signals) -> None:
        """Signal the process, if there is one."""
        if self._process is not None:
            self._process.send_signal(number)

    def wait(self, within: float) -> int | None:
        """Wait for its end. Returns the exit code, or None if it still runs after that many seconds."""
        assert self._process is not None
        try:
            code: int | None = self._process.wait(within)
            self._process = None
        except subprocess.TimeoutExpired:
            code = None
        return code

    def kill(self) -> None:
        """End it with SIGKILL, and no other process with it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class OrchestratorProcess(Program):
    """`rota orchestrator start` for the main crew, `rota worker start` for the others."""

    def __init__(
        self, crew: str, app: str, pools: Mapping[str, int], folder: str, environment: Callable[[], Mapping[str, str]]
    ) -> None:
        log = f"{'orchestrator' if crew == MAIN else crew}.log"
        super().__init__(["rota", *_start_words(crew, pools), "--app", app], folder, log, environment)
        self.crew = crew
        self.unasked_exits: list[int] = []
        self._started_at = 0.0

    @property
    def is_starting(self) -> bool:
        """Whether it may not be up yet: a missing store is an error at the start and tolerated later."""
        return self.pid is None or self._started_at > time.monotonic() - STARTED_WITHIN

    def start(self) -> None:
        super().start()
        self._started_at = time.monotonic()

    def restart_if_ended(self) -> None:
        """Start it again if it ended by itself, and note its exit code."""
        if (code := self.exit_code()) is not None:
            self.unasked_exits.append(code)
            self.start()


class ApiProcess(Program):
    """`rota serve` over the crew's database, always at the same port."""

    def __init__(self, folder: str, environment: Mapping[str, str]) -> None:
        self._port = _free_port()
        super().__init__(["rota.api"], folder, "api.log", lambda: {**environment, "ROTA_HTTP_PORT": str(self._port)})
        self._secret: str | None = None

    def address(self, open_store: Callable[[], Store]) -> dict[str, str]:
        """Return the settings that lead a crew or a loop to the API instead of the database.

        The token that they carry allows working and reading, and nothing else.
        """
        if self._secret is None:
            with open_store() as store:
                self._secret = store.tokens.create("storm", [READ, WORK])[1]
        return {"ROTA_DB": f"http://127.0.0.1:{self._port}", "ROTA_TOKEN": self._secret}

    @property
    def is_up(self) -> bool:
        """Whether it accepts connections."""
        if self.pid is None:
            return False
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def wait_until_up(self, within: float) -> bool:
        deadline = time.monotonic() + within
        while not self.is_up and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.is_up

    def restart_if_ended(self) -> None:
        """Start it again if it ended by itself, as it does when it loses its database."""
        if self.exit_code() is not None:
            self.start()

    def stop(self) -> None:
        """Ask it to end, and kill it if it does not."""
        if self.pid is not None:
            self.send(signal.SIGTERM)
            self.wait(API_STOPS_WITHIN)
            self.kill()


class BashLoops:
    """A number of bash loops, each in a process group of its own."""

    def __init__(self, count: int, folder: str, environment: Callable[[], Mapping[str, str]]) -> None:
        self._names = [f"loop:{n}" for n in range(count)]
        self._folder = folder
        self._environment = environment
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for name in self._names:
            self._start(name)

    def restart_ended(self) -> None:
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                self._start(name)

    def send(self, pid: int, number: signal.Signals) -> bool:
        """Signal a loop together with its command; return false if it has ended.

        SIGTERM goes to the loop only, whose trap lets the command finish.
        """
        for process in self._running.values():
            if process.pid == pid and process.poll() is None:  # not reaped yet, so the PID cannot be reused
                (os.kill if number == signal.SIGTERM else os.killpg)(pid, number)
                return True
        return False

    def stop(self) -> bool:
        """Ask all loops to leave and wait for them; return false if one did not."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + LOOPS_STOP_WITHIN
        try:
            for process in self._running.values():
                process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        self._running.clear()
        return True

    def kill(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._running.clear()

    def _start(self, name: str) -> None:
        self._running[name] = subprocess.Popen(
            ["bash", LOOP_SCRIPT, sys.executable, LOOPS, name],
            cwd=self._folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _start_words(crew: str, pools: Mapping[str, int]) -> list[str]:
    if crew == MAIN:
        pool_options = [word for queue, workers in pools.items() for word in ("--pool", f"{queue}={workers}")]
        return ["orchestrator", "start", "--no-http", *pool_options]
    ((queue, workers),) = pools.items()
    return ["worker", "start", "--name", crew, "--queue", queue, "--workers", str(workers)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
