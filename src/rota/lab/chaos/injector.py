"""The faults of a plan, done to a real crew: to workers, orchestrators, the API and the store."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING

from rota.core.errors import StoreAway
from rota.core.times import MILLISECOND
from rota.lab.chaos import store_faults
from rota.lab.chaos.operator_faults import OperatorFaults
from rota.lab.chaos.plan import (
    CRASH,
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
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.times import Instant
    from rota.lab.chaos.lab_crew import LabCrew
    from rota.lab.chaos.ledger_reader import LedgerReader, Life
    from rota.lab.chaos.orchestrator import Orchestrator
    from rota.lab.chaos.plan import Fault
    from rota.store.store import Store

VICTIM_WITHIN = 2.0
LOOK_AGAIN, WAIT_FOR_START = 0.02, 0.25
IDLE_FOR = 20 * MILLISECOND
UP_WITHIN = 30.0
SIGNALS = {
    KILL_BUSY: signal.SIGKILL,
    KILL_IDLE: signal.SIGKILL,
    TERMINATE: signal.SIGTERM,
    FREEZE: signal.SIGSTOP,
    HANG: signal.SIGSTOP,
}


class Injector:
    """Carries out one fault after another; `missed` are the kinds of those that found nobody to hit.

    `pass_time` looks on until a moment, `do_later` does something after so many seconds.
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
        self._frozen: set[str] = set()
        self.missed: list[str] = []

    def carry_out(self, fault: Fault) -> None:
        """Do what the plan says, to whom it hits now; what hits nobody is counted as missed."""
        if fault.kind == KILL_ORCHESTRATOR:
            self._kill_orchestrator(fault)
        elif fault.kind == FREEZE_CREW:
            self._freeze_crew(fault)
        elif fault.kind == KILL_API:
            self._kill_api(fault)
        elif fault.kind == CRASH:
            self._crash(fault)
        elif fault.kind in STORE_FAULTS:
            self._trouble(fault)
        elif fault.kind in OPERATOR_FAULTS:
            self._act(fault)
        elif (life := self._struck(fault)) is None:
            self.missed.append(fault.kind)
        elif fault.kind == FREEZE:
            self._thaw_later(seconds(fault.lasts), [life])

    def _act(self, fault: Fault) -> None:
        """Do what people do, once there is something to do it to."""
        deadline = time.monotonic() + VICTIM_WITHIN
        while not self._operator_faults.act(fault):
            if time.monotonic() > deadline:
                self.missed.append(fault.kind)
                return
            self._pass_time(time.monotonic() + LOOK_AGAIN)
        self._crew.ledger_writer.write("fault", kind=fault.kind, store_at=self._store.now())

    def _trouble(self, fault: Fault) -> None:
        """Cut the crews' connections, or keep everyone from writing for a while."""
        store_at = self._store.now()
        if fault.kind == HOLD:
            holder = store_faults.hold_lock(self._crew, seconds(fault.lasts))
            self._do_later(seconds(fault.lasts), holder.communicate)
        elif not store_faults.cut_connections(self._crew):
            self.missed.append(fault.kind)
            return
        self._crew.ledger_writer.write("fault", kind=fault.kind, store_at=store_at)

    def _crash(self, fault: Fault) -> None:
        """Crash the server, and start it again after a while; who begins just now is waited for."""
        server = self._crew.server
        assert server is not None, "only a server of the storm's own is crashed"
        if self._are_beginning(self._crew.orchestrators.values()):
            self._do_later(WAIT_FOR_START, lambda: self._crash(fault))
            return
        self._crew.ledger_writer.write("fault", kind=fault.kind, store_at=self._store.now(), lasts=fault.lasts)
        store_faults.crash(server, seconds(fault.lasts))
        self._reach_again()

    def _are_beginning(self, orchestrators: Iterable[Orchestrator]) -> bool:
        """Whether one of them is not there yet: to begin without a store is an error, to lose it later is none."""
        begun = time.monotonic() - UP_WITHIN / 10
        return any(each.pid is None or each.started_at > begun for each in orchestrators)

    def _reach_again(self) -> None:
        """Our own link is lost with the server, which the first that is asked over it notices."""
        deadline = time.monotonic() + UP_WITHIN
        while True:
            try:
                self._store.now()
                return
            except StoreAway:
                if time.monotonic() > deadline:
                    raise

    def _thaw_later(self, after: float, lives: Sequence[Life], orchestrator: Orchestrator | None = None) -> None:
        """By a thread of its own: what was stopped may keep the store locked, and we may be waiting for that lock."""

        def go_on() -> None:
            for life in lives:
                self._crew.send(life, signal.SIGCONT)
            if orchestrator is not None:
                orchestrator.send(signal.SIGCONT)

        thaw = threading.Timer(after, go_on)
        thaw.daemon = True
        thaw.start()
        self._do_later(after, lambda: self._thawed(thaw, lives, orchestrator))

    def _thawed(self, thaw: threading.Thread, lives: Sequence[Life], orchestrator: Orchestrator | None) -> None:
        thaw.join()
        self._crew.ledger_writer.write("thaw", workers=[life.worker for life in lives])
        if orchestrator is not None:
            self._frozen.discard(orchestrator.crew)

    def _orchestrator(self, fault: Fault) -> Orchestrator | None:
        """The one that a fault hits; one that is not there, or stands still, is not hit."""
        there = [each for each in self._crew.orchestrators.values() if each.pid and each.crew not in self._frozen]
        return there[int(fault.choice * len(there))] if there else None

    def _freeze_crew(self, fault: Fault) -> None:
        """Stop an orchestrator and all its workers until others count them as lost, and let them go on then."""
        victim = self._orchestrator(fault)
        if victim is None:
            self.missed.append(fault.kind)
            return
        slots = {slot.name for slot in self._store.slots.all() if slot.crew == victim.crew}
        lives = [life for life in self._reader.read_on().living.values() if life.slot in slots and not life.frozen]
        hit = [life.worker for life in lives]
        facts = {"kind": fault.kind, "crew": victim.crew, "workers": hit, "lasts": fault.lasts}
        self._crew.ledger_writer.write("fault", store_at=self._store.now(), **facts)
        moment, store_at = clock(), self._store.now()
        self._frozen.add(victim.crew)
        victim.send(signal.SIGSTOP)
        for life in lives:
            self._crew.send(life, signal.SIGSTOP)
        self._thaw_later(seconds(fault.lasts), lives, victim)
        self._crew.ledger_writer.write("struck", moment=moment, store_at=store_at)

    def _kill_orchestrator(self, fault: Fault) -> None:
        """Kill one, and start it again after a while."""
        victim = self._orchestrator(fault)
        if victim is None:
            self.missed.append(fault.kind)
            return
        self._crew.ledger_writer.write("fault", kind=fault.kind, store_at=self._store.now(), crew=victim.crew)
        moment, store_at = clock(), self._store.now()
        victim.kill()
        self._crew.ledger_writer.write("struck", moment=moment, store_at=store_at)
        self._do_later(seconds(fault.lasts), lambda: self._start_orchestrator(victim))

    def _start_orchestrator(self, which: Orchestrator) -> None:
        """Start it; an API that is not there yet is waited for, because from the beginning that is an error."""
        api = self._crew.api if which in self._crew.behind_api else None
        if api is None or api.is_up:
            which.start()
        else:
            self._do_later(WAIT_FOR_START, lambda: self._start_orchestrator(which))

    def _kill_api(self, fault: Fault) -> None:
        """Kill the API under those behind it, and start it again after a while; while it is away, wait for it."""
        api = self._crew.api
        assert api is not None
        if api.pid is None or self._are_beginning(self._crew.behind_api):
            self._do_later(WAIT_FOR_START, lambda: self._kill_api(fault))
            return
        self._crew.ledger_writer.write("fault", kind=fault.kind, store_at=self._store.now())
        moment, store_at = clock(), self._store.now()
        api.kill()
        self._crew.ledger_writer.write("struck", moment=moment, store_at=store_at)
        self._do_later(seconds(fault.lasts), api.start)

    def _struck(self, fault: Fault) -> Life | None:
        """The worker that the fault has hit, waited for a little while; one that had just gone is none."""
        began = time.monotonic()
        while (waited := time.monotonic() - began) <= VICTIM_WITHIN:
            life = self._victim(fault, fault.queue if waited < VICTIM_WITHIN / 2 else None)
            if life and strike(self._crew, self._store, fault.kind, life, SIGNALS[fault.kind]):
                return life
            self._pass_time(time.monotonic() + 0.002)
        return None

    def _victim(self, fault: Fault, queue: str | None) -> Life | None:
        """A worker that the fault can hit now, of this queue or of any."""
        lives = self._reader.read_on().living.values()
        now = clock()
        fit = [life for life in lives if queue in (None, life.queue) and _fits(fault.kind, life, now)]
        fit.sort(key=lambda life: life.slot)
        return fit[int(fault.choice * len(fit))] if fit else None


def clock() -> Instant:
    """The ledger's clock: on Linux all processes share it."""
    return time.monotonic_ns() // 1000


def strike(crew: LabCrew, store: Store, kind: str, life: Life, number: signal.Signals) -> bool:
    """Signal a worker. The ledger hears of it before, and after that of the very moment; false when it had gone."""
    crew.ledger_writer.write("fault", kind=kind, workers=[life.worker], store_at=store.now())
    moment, store_at = clock(), store.now()
    if not crew.send(life, number):
        crew.ledger_writer.write("spared")
        return False
    crew.ledger_writer.write("struck", moment=moment, store_at=store_at)
    return True


def _fits(kind: str, life: Life, now: Instant) -> bool:
    if life.frozen or (life.faults and life.faults[-1].kind != FREEZE):
        return False
    match kind:
        case "hang":  # of a loop nobody ends what stands still: its lease lets another begin
            return life.is_supervised
        case "kill busy":
            return life.current is not None
        case "kill idle":
            return life.current is None and now - life.idle_since > IDLE_FOR
        case _:
            return True
