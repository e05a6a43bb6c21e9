"""The programs of a crew, as a person starts them: orchestrators, an HTTP API and bash loops.

A scenario starts, kills, restarts and stops them. Nothing else keeps them alive: it stands in for a service manager.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from rota.core.access import READ, WORK
from rota.lab.chaos.plan import LOOPS, MAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rota.store.store import Store

LOOP_SCRIPT = os.path.join(os.path.dirname(__file__), "loop.sh")
STARTED_WITHIN = 3.0
ORCHESTRATOR_STOPS_WITHIN = 60.0
API_STOPS_WITHIN = LOOPS_STOP_WITHIN = 30.0


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
