"""Faults of the store: on PostgreSQL connections are cut or the server crashes, on SQLite the write lock is held.

    python -m rota.lab.chaos.store_faults DATABASE SECONDS

holds the write lock of a database for that long.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from rota.core.errors import StoreAway
from rota.lab.chaos.plan import CRASH, CUT, HOLD, seconds
from rota.settings import load
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.lab.chaos.lab_crew import LabCrew
    from rota.lab.chaos.plan import Fault
    from rota.store.store import Store

CUT_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
UP_WITHIN = 30.0
TRY_AGAIN_AFTER = 0.25


class StoreFaults:
    """Breaks the store of a crew. `do_later` calls a function after a number of seconds."""

    def __init__(self, crew: LabCrew, store: Store, do_later: Callable[[float, Callable[[], object]], None]) -> None:
        self._crew = crew
        self._store = store
        self._do_later = do_later

    def inject(self, fault: Fault) -> bool:
        """Inject a fault and write it into the ledger; return false if there was nothing to break."""
        if fault.kind == CRASH:
            self._crash(fault)
            return True
        store_at = self._store.now()
        if fault.kind == HOLD:
            holder = self._hold_lock(seconds(fault.lasts))
            self._do_later(seconds(fault.lasts), holder.communicate)
        elif fault.kind == CUT and not self._cut_connections():
            return False
        self._crew.ledger_writer.write("fault", kind=fault.kind, store_at=store_at)
        return True

    def _cut_connections(self) -> bool:
        """Cut every connection of the crews and of their API; return false if there was none."""
        from rota.store.postgres.connection import address
        from rota.store.postgres.driver import psycopg

        with psycopg.connect(address(self._crew.database).conninfo, autocommit=True) as connection:
            return bool(connection.execute(CUT_CONNECTIONS, [self._crew.mark]).fetchall())

    def _hold_lock(self, duration: float) -> subprocess.Popen[bytes]:
        """Start a program that holds the write lock, and wait until it does."""
        words = [sys.executable, "-m", "rota.lab.chaos.store_faults", self._crew.database, str(duration)]
        process = subprocess.Popen(words, cwd=self._crew.folder, env=self._crew.environment, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.read(1)
        return process

    def _crash(self, fault: Fault) -> None:
        """Crash the server and start it again after a while, later if an orchestrator is just starting."""
        server = self._crew.server
        assert server is not None, "only a server that was started for the storm may be crashed"
        if any(orchestrator.is_starting for orchestrator in self._crew.orchestrators.values()):
            self._do_later(TRY_AGAIN_AFTER, lambda: self._crash(fault))
            return
        self._crew.ledger_writer.write("fault", kind=fault.kind, store_at=self._store.now(), lasts=fault.lasts)
        server.crash()
        time.sleep(seconds(fault.lasts))
        server.start()
        self._reconnect()

    def _reconnect(self) -> None:
        """Use up the error of our own connection, which the crash has cut."""
        deadline = time.monotonic() + UP_WITHIN
        while True:
            try:
                self._store.now()
                return
            except StoreAway:
                if time.monotonic() > deadline:
                    raise


def main() -> None:
    database, duration = sys.argv[1], float(sys.argv[2])
    with open_store(database, load()) as store, store.database.write():
        print(flush=True)
        time.sleep(duration)


if __name__ == "__main__":
    main()
