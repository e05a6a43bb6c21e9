"""The HTTP API that a storm's crew reaches in the place of its database: one process, which the storm kills too."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from rota.core.access import READ, WORK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rota.store.store import Store

LOG = "api.log"
STOP_WITHIN = 30.0


class Api:
    """`rota serve` over the crew's database, always at the same port."""

    def __init__(self, folder: str, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._port = _free_port()
        self._environment = {**environment, "ROTA_HTTP_PORT": str(self._port)}
        self._process: subprocess.Popen[bytes] | None = None
        self._secret: str | None = None

    def reach(self, open_store: Callable[[], Store]) -> dict[str, str]:
        """What a crew or a loop is told in the place of the database; the token lets it work, and no more."""
        if self._secret is None:
            with open_store() as store:
                self._secret = store.tokens.create("storm", [READ, WORK])[1]
        return {"ROTA_DB": f"http://127.0.0.1:{self._port}", "ROTA_TOKEN": self._secret}

    def start(self) -> None:
        """Start it; it is not waited for."""
        with open(os.path.join(self._folder, LOG), "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rota.api"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def look(self) -> None:
        """One that left by itself is started again, as a service manager does: without its database none stays."""
        if self._process is not None and self._process.poll() is not None:
            self.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_up(self) -> bool:
        """Whether it answers."""
        if self._process is None:
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

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Ask it to end; one that does not is killed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                pass
            self.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
