"""Trouble with the store itself: on PostgreSQL connections are cut or all of it crashes, on SQLite a lock is held.

python -m rota.lab.chaos.store_faults DATABASE SECONDS
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from rota.settings import load
from rota.store.open import open_store

if TYPE_CHECKING:
    from rota.demo.server import OwnServer
    from rota.lab.chaos.lab_crew import LabCrew

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"


def cut_connections(crew: LabCrew) -> bool:
    """Cut every connection of the crews and of their API; false when there was none."""
    from rota.store.postgres.connection import address
    from rota.store.postgres.driver import psycopg

    with psycopg.connect(address(crew.database).conninfo, autocommit=True) as connection:
        return bool(connection.execute(CUT, [crew.mark]).fetchall())


def crash(server: OwnServer, seconds: float) -> None:
    """Crash the server, and start it again after a while; nothing of it is left but what is on the disk."""
    server.crash()
    time.sleep(seconds)
    server.start()


def hold_lock(crew: LabCrew, seconds: float) -> subprocess.Popen[bytes]:
    """A program that keeps everyone from writing for a while; once this returns, it does."""
    words = [sys.executable, "-m", "rota.lab.chaos.store_faults", crew.database, str(seconds)]
    process = subprocess.Popen(words, cwd=crew.folder, env=crew.environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    return process


def main() -> None:
    database, seconds = sys.argv[1], float(sys.argv[2])
    with open_store(database, load()) as store, store.database.write():
        print(flush=True)
        time.sleep(seconds)


if __name__ == "__main__":
    main()
