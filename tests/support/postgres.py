"""A real PostgreSQL for tests: the one that `ROTA_TEST_PG` names, or one of our own.

Ours is the distribution's server with its default settings, except that it need not survive a power cut;
`./dev test --deep` runs the wheel's. It has a port and a folder of its own, runs as an unprivileged user, and dies with
the tests.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote
from uuid import uuid4

import psycopg

from rota.demo.postgres_server import CARELESS, OwnServer, binaries, own_server, wheel_binaries
from tests.support.tiers import is_deep, refuse_in_fast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

GIVEN = "ROTA_TEST_PG"
T = TypeVar("T")


def for_this_process(context: AbstractContextManager[T]) -> T:
    """Enter a context that is left when this process ends, before those that were entered earlier."""
    until_the_end = ExitStack()
    entered = until_the_end.enter_context(context)
    atexit.register(until_the_end.close)
    return entered


@cache
def shared() -> Server:
    """Return the one server for all tests of this process."""
    return for_this_process(server())


class Server:
    """A server on which tests make databases."""

    def __init__(self, url: str, psql: str) -> None:
        self.url = url
        self.psql = psql

    @contextmanager
    def database(self) -> Iterator[str]:
        """Make an empty database, and yield its URL. Dropped afterwards."""
        name = f"rota_test_{uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        try:
            yield with_parts(self.url, dbname=name)
        finally:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def with_parts(url: str, **parts: str) -> str:
    """Return a URL with another database, user, host or port."""
    known = {**psycopg.conninfo.conninfo_to_dict(url), **parts}
    place = f"{known.get('host', '127.0.0.1')}:{known.get('port', 5432)}"
    secret = f":{quote(str(known['password']), safe='')}" if known.get("password") else ""
    return f"postgresql://{quote(str(known.get('user', 'postgres')), safe='')}{secret}@{place}/{known['dbname']}"


@contextmanager
def login_role(url: str) -> Iterator[str]:
    """Make a role that may only log in, with the password in `url` if there is one. Dropped afterwards."""
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
    """Yield the server that was given, or start one for the length of the block."""
    if given := os.environ.get(GIVEN):
        yield Server(given, str(programs() / "psql"))
        return
    with own(durable) as ours:
        yield Server(ours.url, ours.psql)


@contextmanager
def own(durable: bool = False, **settings: str) -> Iterator[OwnServer]:
    """Start a server of our own, even if one was given: a test may crash it. It has only these settings and ours."""
    refuse_in_fast("a PostgreSQL server")
    with own_server({**({} if durable else CARELESS), **settings}, programs()) as ours:
        yield ours


def programs() -> Path:
    """Return the folder of the server's programs."""
    folder = wheel_binaries() if is_deep() else binaries()
    assert folder is not None, "no PostgreSQL here: `./dev setup` installs the distribution's"
    return folder


def psql(server: Server, url: str, script: str) -> str:
    """Return what psql prints for a script: rows only, columns separated by `|`. Any error fails."""
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
