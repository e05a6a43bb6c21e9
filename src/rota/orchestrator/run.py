"""Running an orchestrator in this process, from its start to its clean end."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from rota.core.errors import Conflict
from rota.core.ids import printable
from rota.orchestrator.crew import Crew
from rota.orchestrator.exclusive import Exclusive
from rota.orchestrator.ledger import Ledger
from rota.orchestrator.loop import Loop
from rota.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.settings import Settings

LAST_WORD = 10.0


def lock_path(database: str) -> str:
    return f"{database}.orchestrator"


def run(settings: Settings, app: str, pools: Mapping[str, int]) -> int:
    """Keep a crew alive until a signal says stop; the exit code."""
    with open_store(settings.db, settings, make=True, told=_tell) as store:
        path, url, beside = store.database.path, store.database.url, store.database.beside
    exclusive = Exclusive(lock_path(beside))
    other = exclusive.take()
    if other is not None:
        raise Conflict(f"an orchestrator of {path} is running already, pid {other}: `rota orchestrator stop` ends it")
    try:
        return _keep(settings.but(db=url), {**os.environ, "ROTA_APP": app, "ROTA_DB": url}, pools)
    finally:
        exclusive.release()


def _keep(settings: Settings, environment: Mapping[str, str], pools: Mapping[str, int]) -> int:
    loop = Loop()
    ledger = Ledger(lambda: open_store(settings.db, settings), lambda text: say("store", text))
    crew = Crew(loop, ledger, settings.restarts, environment, say)
    loop.watch(ledger.wakeup, ledger.carry_on)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.on_signal(number, crew.stop)
    say("orchestrator", f"pid {os.getpid()}, " + ", ".join(f"{queue} {count}" for queue, count in pools.items()))
    crew.begin("main", pools)
    while not crew.gone:
        loop.turn(crew.tick())
    settled = ledger.close(LAST_WORD)
    loop.close()
    say("orchestrator", "stopped" if settled else "stopped, but the store did not answer: the lease will lapse")
    return crew.exit_code if settled else 1


def say(slot: str, text: str) -> None:
    """A line for people, on stderr."""
    sys.stderr.write(f"{slot:<18} {printable(text)}\n")


def _tell(text: str) -> None:
    say("store", text)
