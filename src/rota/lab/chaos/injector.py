"""Carry out the faults of a plan on a real crew: on workers, orchestrators, the API and the store.

The faults that stand for an operator are in `operator_faults.py`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from rota.core.errors import StoreAway
from rota.core.times import MILLISECOND
from rota.lab.chaos.operator_faults import OperatorFaults
from rota.lab.chaos.plan import (
    CRASH,
    CUT,
    FREEZE,
    FREEZE_CREW,
    HANG,
    HOLD,
    KILL_API,
    KILL_BUSY,
    KILL_IDLE,
    KILL_ORCHESTRATOR,
    OPERATOR_FAULTS,
    STORE_FAULTS,
    TERMINATE,
    seconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.core.times import Instant
    from rota.lab.chaos.lab_crew import LabCrew, OrchestratorProcess
    from rota.lab.chaos.ledger_reader import LedgerReader, Life
    from rota.lab.chaos.plan import Fault
    from rota.store.store import Store

VICTIM_WITHIN = 2.0
VICTIM_POLL, OPERATOR_POLL, TRY_AGAIN_AFTER = 0.002, 0.02, 0.25
IDLE_FOR = 20 * MILLISECOND
SIGNALS = {
    KILL_BUSY: signal.SIGKILL,
    KILL_IDLE: signal.SIGKILL,
    TERMINATE: signal.SIGTERM,
    FREEZE: signal.SIGSTOP,
    HANG: signal.SIGSTOP,
}
CUT_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
UP_WITHIN = 30.0


class Injector:
    """Injects one fault after another. `missed` lists the kinds of those that found nothing to hit.

    Args:
        pass_time: Waits until a moment while the scenario goes on.
        do_later: Calls a function after a number of seconds.
    """

    def __init__(
        self,
        crew: LabCrew,
        store: Store,
        reader: LedgerReader,
        pass_time: Callable[[float], None],
        do_later: Callable[[float, Callable[[], object]], None],
    ) -> None:
        self._crew = crew
        self._store = store
        self._reader = reader
        self._pass_time = pass_time
        self._do_later = do_later
        self._operator_faults = OperatorFaults(store, crew.ledger_writer, do_later)
        self._store_faults = StoreFaults(crew, store, do_later)
        self._frozen: set[str] = set()
        self.missed: list[str] = []

    def inject(self, fault: Fault) -> None:
        """Inject a fault into whatever it hits now; one that hits nothing counts as missed."""
        if fault.kind == KILL_API:
            self._kill_api(fault)
        elif not self._hit(fault):
            self.missed.append(fault.kind)

    def _hit(self, fault: Fault) -> bool:
        """Inject a fault; return false if it found nothing to hit."""
        if fault.kind == KILL_ORCHESTRATOR:
            return self._kill_orchestrator(fault)
        if fault.kind == FREEZE_CREW:
            return self._freeze_crew(fault)
        if fault.kind in STORE_FAULTS:
            return self._store_faults.inject(fault)
        if fault.kind in OPERATOR_FAULTS:
            return self._act_as_operator(fault)
        life = self._strike_worker(fault)
        if life is not None and fault.kind == FREEZE:
            self._thaw_later(seconds(fault.lasts), [life])
        return life is not None

    def _act_as_operator(self, fault: Fault) -> bool:
        """Wait a little until there is a job or a queue that the operator can act on, and do it."""
        deadline = time.monotonic() + VICTIM_WITHIN
        while not self._operator_faults.inject(fault):
            if time.monotonic() > deadline:
                return False
            self._pass_time(time.monotonic() + OPERATOR_POLL)
        self._crew.ledger_writer.write("fault", kind=fault.kind, store_at=self._store.now())
        return True

    def _thaw_later(self, after: float, lives: Sequence[Life], orchestrator: OrchestratorProcess | None = None) -> None:
        """Let stopped processes go on, from a thread: they may hold the store's lock that we are waiting for."""

        def thaw_all() -> None:
            for life in lives:
                self._crew.send(life, signal.SIGCONT)
            if orchestrator is not None:
                orchestrator.send(signal.SIGCONT)

        thaw = threading.Timer(after, thaw_all)
        thaw.daemon = True
        thaw.start()
        self._do_later(after, lambda: self._thawed(thaw, lives, orchestrator))

    def _thawed(self, thaw: threading.Thread, lives: Sequence[Life], orchestrator: OrchestratorProcess | None) -> None:
        thaw.join()
        self._crew.ledger_writer.write("thaw", workers=[life.worker for life in lives])
        if orchestrator is not None:
            self._frozen.discard(orchestrator.crew)

    def _choose_orchestrator(self, fault: Fault) -> OrchestratorProcess | None:
        """Choose among the orchestrators that run and are not frozen; None if there is none."""
        running = [
            orchestrator
            for orchestrator in self._crew.orchestrators.values()
            if orchestrator.pid and orchestrator.crew not in self._frozen
        ]
        return running[int(fault.choice * len(running))] if running else None

    def _freeze_crew(self, fault: Fault) -> bool:
        """Stop an orchestrator and all its workers past their lease, so that others take over their jobs."""
        victim = self._choose_orchestrator(fault)
        if victim is None:
            return False
        slots = {slot.name for slot in self._store.slots.all() if slot.crew == victim.crew}
        lives = [life for life in self._reader.read_on().living.values() if life.slot in slots and not life.frozen]
        workers = [life.worker for life in lives]
        facts = {"kind": fault.kind, "crew": victim.crew, "workers": workers, "lasts": fault.lasts}
        self._crew.ledger_writer.write("fault", store_at=self._store.now(), **facts)
        moment, store_at = clock(), self._store.now()
        self._frozen.add(victim.crew)
        victim.send(signal.SIGSTOP)
        for life in lives:
            self._crew.send(life, signal.SIGSTOP)
        self._thaw_later(seconds(fault.lasts), lives, victim)
        self._crew.ledger_writer.write("struck", moment=moment, store_at=store_at)
        return True

    def _kill_orchestrator(self, fault: Fault) -> bool:
        """Kill an orchestrator, and start it again after a while."""
        victim = self._choose_orchestrator(fault)
        if victim is None:
            return False
        self._crew.ledger_writer.write("fault", kind=fault.kind, store_at=self._store.now(), crew=victim.crew)
        moment, store_at = clock(), self._store.now()
        victim.kill()
        self._crew.ledger_writer.write("struck", moment=moment, store_at=store_at)
        self._do_later(seconds(fault.lasts), lambda: self._start_orchestrator(victim))
        return True

    def _start_orchestrator(self, orchestrator: OrchestratorProcess) -> None:
        """Start an orchestrator once its API, if it uses one, is up: without it the start is an error."""
        api = self._crew.api if orchestrator in self._crew.behind_api else None
        if api is None or api.is_up:
            orchestrator.start()
        else:
            self._do_later(TRY_AGAIN_AFTER, lambda: self._start_orchestrator(orchestrator))

    def _kill_api(self, fault: Fault) -> None:
        """Kill the API and start it again after a while; later if it is down or one of its crews is starting."""
        api = self._crew.api
        assert api is not None
        if api.pid is None or any(orchestrator.is_starting for orchestrator in self._crew.behind_api):
            self._do_later(TRY_AGAIN_AFTER, lambda: self._kill_api(fault))
            return
        self._crew.ledger_writer.write("fault", kind=fault.kind, store_at=self._store.now())
        moment, store_at = clock(), self._store.now()
        api.kill()
        self._crew.ledger_writer.write("struck", moment=moment, store_at=store_at)
        self._do_later(seconds(fault.lasts), api.start)

    def _strike_worker(self, fault: Fault) -> Life | None:
        """Wait a little for a worker that the fault can hit, and signal it; None if there was none.

        The queue of the plan is preferred for half of that time; afterwards any worker will do.
        """
        began = time.monotonic()
        while (waited := time.monotonic() - began) <= VICTIM_WITHIN:
            life = self._choose_worker(fault, fault.queue if waited < VICTIM_WITHIN / 2 else None)
            if life and strike(self._crew, self._store, fault.kind, life, SIGNALS[fault.kind]):
                return life
            self._pass_time(time.monotonic() + VICTIM_POLL)
        return None

    def _choose_worker(self, fault: Fault, queue: str | None) -> Life | None:
        lives = self._reader.read_on().living.values()
        now = clock()
        fit = [life for life in lives if queue in (None, life.queue) and _fits(fault.kind, life, now)]
        fit.sort(key=lambda life: life.slot)
        return fit[int(fault.choice * len(fit))] if fit else None


def clock() -> Instant:
    """Read the ledger's clock, which all processes of a Linux host share."""
    return time.monotonic_ns() // 1000


def strike(crew: LabCrew, store: Store, kind: str, life: Life, number: signal.Signals) -> bool:
    """Signal a worker; return false if it had already ended.

    The ledger gets a line before the signal and another one with its exact moment, or with the news that it missed.
    """
    crew.ledger_writer.write("fault", kind=kind, workers=[life.worker], store_at=store.now())
    moment, store_at = clock(), store.now()
    if not crew.send(life, number):
        crew.ledger_writer.write("spared")
        return False
    crew.ledger_writer.write("struck", moment=moment, store_at=store_at)
    return True


def _fits(kind: str, life: Life, now: Instant) -> bool:
    """Return whether a fault of this kind can hit a worker now."""
    if life.frozen or (life.faults and life.faults[-1].kind != FREEZE):
        return False
    match kind:
        case "hang":  # Nothing would end a hung bash loop: its lease only lets another worker begin.
            return life.is_supervised
        case "kill busy":
            return life.current is not None
        case "kill idle":
            return life.current is None and now - life.idle_since > IDLE_FOR
        case _:
            return True


class StoreFaults:
    """Breaks the store of a crew: PostgreSQL loses connections or crashes, on SQLite the write lock is held."""

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
        from rota.store.postgres.connection import address, psycopg

        with psycopg.connect(address(self._crew.database).conninfo, autocommit=True) as connection:
            return bool(connection.execute(CUT_CONNECTIONS, [self._crew.mark]).fetchall())

    def _hold_lock(self, duration: float) -> subprocess.Popen[bytes]:
        """Start a program that holds the write lock, and wait until it does."""
        words = [sys.executable, "-m", "rota.lab.chaos.programs", "hold", self._crew.database, str(duration)]
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
