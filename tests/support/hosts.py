"""Hosts for tests: each is a process namespace with a name of its own, so that all of it can vanish at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

from tests.support.crews import Crew
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from pathlib import Path

UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts")


class Hosts:
    """Orchestrators over one crew's folder, each on a host of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.crew = Crew(folder, ROTA_DB=url, ROTA_RESTART_BACKOFF="50ms")
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *pools: str, **env: str) -> None:
        """Start an orchestrator on a host. Fails where namespaces are not allowed: a skip would go unnoticed."""
        folder = self.crew.folder / name
        folder.mkdir()
        wanted = " ".join(f"--pool {pool}" for pool in pools or ("tag=1",))
        start = f"hostname {name} && exec '{ROTA}' orchestrator start --app shop:app --no-http {wanted}"
        with self.crew.log.open("ab") as log:
            env = environment(**{**self.crew.env, "XDG_RUNTIME_DIR": str(folder), **env})
            words = [*([] if os.geteuid() == 0 else ["unshare", "--map-root-user"]), *UNSHARE, "sh", "-c", start]
            self._running[name] = subprocess.Popen(
                words, cwd=self.crew.folder, env=env, stdin=subprocess.DEVNULL, stderr=log
            )

    def vanish(self, name: str) -> None:
        """Kill every process of a host at once, so that none can report anything."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(30)

    def end(self) -> None:
        for name in list(self._running):
            self.vanish(name)
        self.crew.end()

    def up(self) -> list[str]:
        """Return the hosts of the slots that are up, as a person sees them."""
        document = json.loads(self.status("--json"))
        return sorted(slot["host"] for slot in document["slots"] if slot["status"] == "up" and slot["wanted"])

    def status(self, *words: str) -> str:
        """Return the status as a host without an orchestrator shows it."""
        return self.crew.call("orchestrator", "status", *words, code=6)

    def host_of(self, worker: str | None) -> str:
        assert worker is not None
        return self.crew.app.workers.get(worker).hostname
