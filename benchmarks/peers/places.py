"""Where systems keep their jobs: a folder, a database of a PostgreSQL server, a database of a Redis server."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import TYPE_CHECKING

import psycopg

from benchmarks.peers.table import POSTGRES, REDIS, SQLITE
from rota.demo.postgres_server import free_port, own_server

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 10.0
REDIS_DATABASES = 64
# What Redis recommends to those who want their data kept: a log of every write, synced every second.
REDIS_SETTINGS = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")


class CannotRun(Exception):
    """A system or its server is missing, with the reason."""


class Places:
    """Hands out fresh, empty places; its servers are started when first needed and end with the block."""

    def __init__(self, until: ExitStack) -> None:
        self._until = until
        self._numbers = count()
        self._servers: dict[str, str] = {}

    def fresh(self, on: str) -> str:
        """A folder, or a URL."""
        number = next(self._numbers)
        if on == SQLITE:
            return self._until.enter_context(tempfile.TemporaryDirectory(prefix="rota-bench-"))
        if on not in self._servers:
            start = {POSTGRES: _postgres, REDIS: _redis}[on]
            self._servers[on] = self._until.enter_context(start())
        server = self._servers[on]
        if on == REDIS:
            _redis_cli(server, "-n", str(number % REDIS_DATABASES), "FLUSHDB")
            return f"{server}/{number % REDIS_DATABASES}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "bench_{number}" TEMPLATE template0'.encode())
        return server.rpartition("/")[0] + f"/bench_{number}"


@contextmanager
def places() -> Iterator[Places]:
    with ExitStack() as until:
        yield Places(until)


@contextmanager
def _postgres() -> Iterator[str]:
    """A server that waits for the disk, as it comes."""
    with own_server({"max_connections": "300"}) as server:
        yield server.url


@contextmanager
def _redis() -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        raise CannotRun("redis-server is not installed: ./dev bench does that on Debian")
    port = free_port()
    url = f"redis://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="rota-redis-") as folder:
        words = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
        words += ["--databases", str(REDIS_DATABASES), *REDIS_SETTINGS]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
            try:
                until = time.monotonic() + PATIENCE
                while _redis_cli(url, "PING") != "PONG":
                    if server.poll() is not None or time.monotonic() > until:
                        raise CannotRun("redis-server did not start")
                    time.sleep(0.02)
                yield url
            finally:
                server.terminate()


def _redis_cli(url: str, *words: str) -> str:
    ran = subprocess.run(
        [shutil.which("redis-cli") or "redis-cli", "-u", url, *words], capture_output=True, text=True, check=False
    )
    return ran.stdout.strip()


def size(folder: str, name: str) -> int:
    """How many bytes a file has; none when there is no file yet."""
    try:
        return os.path.getsize(os.path.join(folder, name))
    except FileNotFoundError:
        return 0
