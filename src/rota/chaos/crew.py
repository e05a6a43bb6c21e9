"""The crew under test, as a person runs it: `rota orchestrator start` as a process, in a folder of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from rota.chaos import system
from rota.chaos.api import Api
from rota.chaos.app import KEYS, MARKS
from rota.chaos.pen import LEDGER, Pen
from rota.settings import load
from rota.store.open import open_store, within_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.store.store import Store

APP = "rota.chaos.app:app"
DATABASE, LOG, LEDGER_FILE, LEDGER_SOCKET = "rota.db", "orchestrator.log", "ledger", "ledger.sock"
START_WITHIN, STOP_WITHIN = 60.0, 60.0

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


class Crew:
    """An orchestrator over its own database, and the ledger beside it."""

    def __init__(
        self,
        folder: str,
        pools: Mapping[str, int],
        app: str = APP,
        settings: Mapping[str, str] = SETTINGS,
        keys: int = 0,
        url: str | None = None,
        over_http: bool = False,
        **more: str,
    ) -> None:
        self.folder = folder
        self.pools = pools
        self.workers = sum(pools.values())
        self.mark = secrets.token_hex(8)
        self.schema = f"rota_chaos_{self.mark}" if url else None
        self.database = within_schema(url, self.schema) if url and self.schema else os.path.join(folder, DATABASE)
        self.unasked_exits: list[int] = []
        self._app = app
        self._plain = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        own = {"ROTA_DB": self.database, "XDG_RUNTIME_DIR": folder, LEDGER: LEDGER_SOCKET, KEYS: str(keys)}
        own[system.MARK] = self.mark
        self.environment = {**self._plain, **settings, **own, **more}
        self.settings = load(environment=self.environment, start=folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.api = Api(folder, self.environment) if over_http else None
        os.makedirs(os.path.join(folder, MARKS), exist_ok=True)
        self._ledger = self._start_ledger()
        assert self._ledger.stdout is not None and self._ledger.stdin is not None
        self.pen = Pen(self._ledger.stdout, self._ledger.stdin)

    @property
    def log(self) -> str:
        return os.path.join(self.folder, LOG)

    @property
    def ledger(self) -> str:
        return os.path.join(self.folder, LEDGER_FILE)

    @property
    def pid(self) -> int | None:
        """The orchestrator's process; None while there is none."""
        return self._process.pid if self._process is not None else None

    def open(self) -> Store:
        return open_store(self.database, self.settings, make=True)

    def start(self) -> None:
        """Start an orchestrator; it is not waited for."""
        reach = self.api.reach(self.open) if self.api else {}
        words = [sys.executable, "-m", "rota", "orchestrator", "start", "--app", self._app, "--no-http"]
        words += [word for queue, workers in self.pools.items() for word in ("--pool", f"{queue}={workers}")]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                words,
                cwd=self.folder,
                env={**self.environment, **reach},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def look(self) -> None:
        """An orchestrator that left by itself is noted and started again."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self.unasked_exits.append(code)
            self.start()

    def kill(self) -> None:
        """End the orchestrator with SIGKILL, and no other process with it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> tuple[float, int | None]:
        """Ask the orchestrator to stop, and wait: how many seconds it took, and its exit code, None if it did not."""
        assert self._process is not None
        asked = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            code: int | None = self._process.wait(STOP_WITHIN)
            self._process = None
        except subprocess.TimeoutExpired:
            code = None
        return time.monotonic() - asked, code

    def wait_until_whole(self, store: Store, within: float = START_WITHIN) -> bool:
        """Wait until every slot has a worker that is up, and there are no others."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            up = sum(slot.status == "up" for slot in store.slots.all())
            if up == len(store.workers.list()) == self.workers:
                return True
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
        self.kill()
        if self.api is not None:
            self.api.kill()
        system.end_all(self.mark)
        assert self._ledger.stdin is not None and self._ledger.stdout is not None
        try:
            self._ledger.stdin.close()
        except BrokenPipeError:  # it is gone already, which has been told
            pass
        self._ledger.wait()
        self._ledger.stdout.close()

    def _start_ledger(self) -> subprocess.Popen[bytes]:
        """The socket's name is relative to the folder, which is every process's current one: such names are short."""
        return subprocess.Popen(
            [sys.executable, "-m", "rota.chaos.ledger", LEDGER_FILE, LEDGER_SOCKET],
            cwd=self.folder,
            env=self._plain,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
