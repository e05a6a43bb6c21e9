"""Hosts that reach only the API: each with a folder, a name, a process namespace and a token of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rota.app import App
from rota.core.job import NewJob
from rota.settings import Settings
from tests.api.servers import Server
from tests.support.crews import SHOP
from tests.support.hosts import UNSHARE
from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from rota.core.job import Job


class Host:
    """One host. `process` is the process that its orchestrator runs under."""

    def __init__(self, name: str, folder: Path, env: dict[str, str]) -> None:
        self.name = name
        self.folder = folder
        self.env = env
        self.process: subprocess.Popen[bytes] | None = None

    def said(self, text: str) -> list[str]:
        """Return the lines of its log that contain a text."""
        return [line for line in (self.folder / "log").read_text().splitlines() if text in line]

    def ledger(self) -> list[str]:
        path = self.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def held_by(self, name: str) -> int:
        """Return the process, by its number on the host, that runs the latest `hold` of this name."""
        lines = [line for line in self.ledger() if line.startswith(f"hold {name} ")]
        return int(lines[-1].split()[2]) if lines else 0


class Far:
    """A server with the database, and hosts that reach only its API."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "server").mkdir()
        self.server = Server(folder / "server", ROTA_RESTART_BACKOFF="50ms")
        self.server._env["ROTA_HTTP_PORT"] = self.server.url.rpartition(":")[2]
        self.app = App(str(self.server.shell.path), Settings())
        self.hosts: dict[str, Host] = {}

    def host(self, name: str, tasks: str = "", **env: str) -> Host:
        """Add a host with a token to work, and the application."""
        folder = self._folder / name
        folder.mkdir()
        (folder / "shop.py").write_text(SHOP + tasks)
        own = {
            "ROTA_DB": self.server.url,
            "ROTA_TOKEN": self.server.token(name, "work"),
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.hosts[name] = Host(name, folder, {**own, "ROTA_RESTART_BACKOFF": "50ms", **env})
        return self.hosts[name]

    def start(self, name: str, *words: str, **env: str) -> Host:
        """Start an orchestrator on a host, with two workers by default."""
        host = self.hosts.get(name) or self.host(name, **env)
        words = words or ("orchestrator", "start", "--app", "shop:app", "--pool", "tag=2")
        start = f"hostname {name} && exec '{ROTA}' {' '.join(words)}"
        root = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
        with (host.folder / "log").open("ab") as log:
            host.process = subprocess.Popen(
                [*root, *UNSHARE, "sh", "-c", start],
                cwd=host.folder,
                env=environment(**host.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return host

    def orchestrator(self, host: Host) -> int:
        """Return the process of a host's orchestrator, by its number here."""
        return self._inside(host, "orchestrator start", "worker start", "worker exec")[0]

    def workers(self, host: Host) -> list[int]:
        return self._inside(host, "-m rota.worker")

    def _inside(self, host: Host, *told: str) -> list[int]:
        """Return the living processes of a host whose command contains a text."""
        assert host.process is not None
        found, left = [], [host.process.pid]
        while left:
            pid = left.pop()
            try:
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            left += map(int, children)
            if any(each in command for each in told) and "unshare" not in command and "sh -c" not in command:
                found.append(pid)
        return found

    def vanish(self, host: Host) -> None:
        """Kill every process of a host at once."""
        assert host.process is not None
        host.process.send_signal(signal.SIGKILL)
        host.process.wait(30)
        host.process = None

    def stop(self, host: Host) -> int:
        """Ask its orchestrator to stop, and return the exit code."""
        os.kill(self.orchestrator(host), signal.SIGTERM)
        return self.wait(host)

    def wait(self, host: Host) -> int:
        assert host.process is not None
        code = host.process.wait(60)
        host.process = None
        return code

    def kill_api(self) -> None:
        assert self.server.process is not None
        self.server.process.kill()
        self.server.process.wait()

    def add(self, kind: str, **payload: object) -> int:
        return self.app.enqueue(NewJob(kind, queue="tag", kind=kind, payload=payload or None)).id

    def done(self, *ids: int) -> list[Job]:
        return self.app.jobs.wait(ids, "done", 60_000_000)

    def up(self, count: int) -> bool:
        return sum(slot.status == "up" for slot in self.app.store.slots.all()) == count

    def end(self) -> None:
        """End every process, whatever the test did."""
        for host in self.hosts.values():
            if host.process is not None:
                self.vanish(host)
        self.app.close()
        self.server.end()
