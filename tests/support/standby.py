"""A streaming standby of a PostgreSQL of our own: it has what the primary has, a moment later, and takes no writes."""

from __future__ import annotations

import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from rota.demo.postgres_server import CARELESS, LISTENS_HERE, free_port, own_folder, reachable
from tests.support.eventually import eventually
from tests.support.postgres import programs, with_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60


@contextmanager
def standby(primary: str) -> Iterator[str]:
    """Start a standby of the server with this URL, and yield the standby's URL."""
    port = str(free_port())
    with own_folder("rota-standby-") as (home, who):
        data, folder = str(home / "data"), reachable(programs(), home, who)
        copy = [str(folder / "pg_basebackup"), "-D", data, "-d", primary, "-R", "-c", "fast", "--no-sync"]
        subprocess.run(copy, check=True, timeout=PATIENCE, **who)
        settings = {**LISTENS_HERE, **CARELESS, "port": port}
        words = [str(folder / "postgres"), "-D", data, *(f"-c{name}={value}" for name, value in settings.items())]
        with (home / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log, **who) as process:
            try:
                url = with_parts(primary, port=port)
                eventually(lambda: _answers(url), within=PATIENCE)
                yield url
            finally:
                process.send_signal(signal.SIGQUIT)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
