"""One orchestrator of a storm, as a person runs it: a process that is started, killed, started again and stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from rota.lab.chaos.plan import MAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STOP_WITHIN = 60.0


class Orchestrator:
    """`rota orchestrator start` for the main crew, `rota worker start` for those beside it."""

    def __init__(
        self, crew: str, app: str, pools: Mapping[str, int], folder: str, reach: Callable[[], Mapping[str, str]]
    ) -> None:
        self.crew = crew
        self.log = f"{folder}/{'orchestrator' if crew == MAIN else crew}.log"
        self.unasked_exits: list[int] = []
        self.started_at = 0.0
        self._words = [sys.executable, "-m", "rota", *_words(crew, pools), "--app", app]
        self._folder = folder
        self._reach = reach  # its environment, asked for at each start
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process; None while there is none."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it; it is not waited for."""
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._words,
                cwd=self._folder,
                env=self._reach(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started_at = time.monotonic()

    def look(self) -> None:
        """One that left by itself is noted and started again."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self.unasked_exits.append(code)
            self.start()

    def kill(self) -> None:
        """End it with SIGKILL, and no other process with it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def send(self, number: signal.Signals) -> None:
        """Signal it, where it is there."""
        if self._process is not None:
            self._process.send_signal(number)

    def ask_to_stop(self) -> None:
        self.send(signal.SIGTERM)

    def wait(self) -> int | None:
        """Its exit code, None if it did not end in time."""
        assert self._process is not None
        try:
            code: int | None = self._process.wait(STOP_WITHIN)
            self._process = None
        except subprocess.TimeoutExpired:
            code = None
        return code


def _words(crew: str, pools: Mapping[str, int]) -> list[str]:
    if crew == MAIN:
        wanted = [word for queue, workers in pools.items() for word in ("--pool", f"{queue}={workers}")]
        return ["orchestrator", "start", "--no-http", *wanted]
    ((queue, workers),) = pools.items()
    return ["worker", "start", "--name", crew, "--queue", queue, "--workers", str(workers)]
