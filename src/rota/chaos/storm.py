"""A storm: the plan, carried out on a real crew, until the queue is worked off and the crew has stopped."""

from __future__ import annotations

import signal
import threading
import time
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from rota.chaos import system, trouble
from rota.chaos.book import Reader
from rota.chaos.crew import LEDGER_SOCKET
from rota.chaos.expected import blocked_for_good
from rota.chaos.lookout import Lookout
from rota.chaos.people import People
from rota.chaos.plan import (
    CUT,
    FREEZE,
    HANG,
    HOLD,
    KILL_API,
    KILL_BUSY,
    KILL_IDLE,
    KILL_ORCHESTRATOR,
    PEOPLE,
    TERMINATE,
    Offer,
    kind_of,
    seconds,
)
from rota.chaos.snapshot import Sample, Watch, count, every_job, sourced, take
from rota.core import job as jobs
from rota.core.errors import Refused, RotaError
from rota.core.job import NewJob
from rota.core.times import MILLISECOND

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rota.chaos.book import Life
    from rota.chaos.crew import Crew
    from rota.chaos.orchestrator import Orchestrator
    from rota.chaos.plan import Fault, Plan, PlannedJob
    from rota.chaos.snapshot import Snapshot
    from rota.chaos.violation import Violation
    from rota.core.times import Instant
    from rota.store.events import Event
    from rota.store.store import Store

MANY_ATTEMPTS = 1000
SAMPLE_EVERY, TELL_EVERY = 0.25, 5.0
VICTIM_WITHIN = 2.0
LOOK_AGAIN = 0.02
WORK_OFF_WITHIN = 120.0
IDLE_FOR = 20 * MILLISECOND
UP_WITHIN, SETTLE_WITHIN = 30.0, 3.0
SIGNALS = {
    KILL_BUSY: signal.SIGKILL,
    KILL_IDLE: signal.SIGKILL,
    TERMINATE: signal.SIGTERM,
    FREEZE: signal.SIGSTOP,
    HANG: signal.SIGSTOP,
}


class Storm:
    """Carries out one plan. The times of the plan count from the moment at which the whole crew is up."""

    def __init__(
        self, crew: Crew, plan: Plan, say: Callable[[str], None], work_off_within: float = WORK_OFF_WITHIN
    ) -> None:
        self._crew = crew
        self._plan = plan
        self._say = say
        self._patience = work_off_within
        self._store = crew.open()
        self._people = People(self._store, crew.pen, self._do_later)
        self._reader: Reader | None = None
        self._later: list[tuple[float, int, Callable[[], object]]] = []
        self._samples: list[Sample] = []
        self._followed: list[Event] = []
        self._missed: list[str] = []
        self._refused: list[str] = []
        self._violations: list[Violation] = []
        self._lookout = Lookout(in_order=plan.options.store != "postgres")
        self._next_sample = self._next_word = self._began = 0.0

    def run(self) -> Snapshot:
        """Blow from beginning to end; what is there then, to be checked."""
        crew = self._crew
        crew.start()
        if not crew.wait_until_whole(self._store):
            raise Refused(f"the crew did not come up: see {crew.main.log}")
        self._reader = Reader(crew.ledger)
        before = system.vitals(crew.main.pid or 0)
        self._blow()
        self._say("the storm is over: working off the queue")
        watch = self._cease(before)
        self._store.close()
        remains = system.remains(crew.folder, crew.mark, (LEDGER_SOCKET,))
        with crew.open() as store:
            return take(store, self._plan, self._reader.read_on(), watch, remains, crew.folder)

    def _blow(self) -> None:
        self._began = began = time.monotonic()
        for step in self._plan.steps:
            self._pass_time(began + seconds(step.at))
            if isinstance(step, Offer):
                self._offer(step)
            else:
                self._break(step)
        self._pass_time(began + seconds(self._plan.options.span))

    def _cease(self, before: system.Vitals) -> Watch:
        """Work off the queue, let the crew become whole again, and stop it."""
        crew = self._crew
        worked_off = self._work_off()
        whole = crew.wait_until_whole(self._store)
        pid = crew.main.pid
        after = system.settled(pid, before, SETTLE_WITHIN) if whole and pid else None
        stop_seconds, stop_code = crew.stop()
        self._judge([], self._follow())
        return Watch(
            samples=tuple(self._samples),
            followed=tuple(self._followed),
            missed=tuple(self._missed),
            refused_offers=tuple(self._refused),
            unasked_exits=tuple(crew.unasked_exits),
            before=before,
            after=after,
            worked_off=worked_off,
            stop_seconds=stop_seconds,
            stop_code=stop_code,
            violations=tuple(self._violations),
        )

    def close(self) -> None:
        self._store.close()
        if self._reader is not None:
            self._reader.close()

    # time

    def _pass_time(self, until: float) -> None:
        """Wait, and look on: what is due is done, what happens is followed."""
        while True:
            now = time.monotonic()
            while self._later and self._later[0][0] <= now:
                heappop(self._later)[2]()
            if now >= self._next_sample:
                self._next_sample = now + SAMPLE_EVERY
                self._crew.look()
                self._judge(self._sample(), self._follow())
            if now >= self._next_word:
                self._next_word = now + TELL_EVERY
                self._tell()
            due = min(until, self._next_sample, *(at for at, _, _ in self._later[:1]))
            if now >= until:
                return
            time.sleep(max(0.0, due - now))

    def _do_later(self, after: float, what: Callable[[], object]) -> None:
        heappush(self._later, (time.monotonic() + after, len(self._later) + time.monotonic_ns(), what))

    def _judge(self, samples: list[Sample], events: list[Event]) -> None:
        """Tell at once what is wrong, with its moment."""
        assert self._reader is not None
        at = round(time.monotonic() - self._began, 1)
        for found in self._lookout.look(self._reader.read_on(), events, samples):
            self._violations.append(found.but(at=at))
            self._say(f"violated after {at} s: {found.invariant}: {found.text}")

    def _sample(self) -> list[Sample]:
        """One moment of what is held, and by whom."""
        store = self._store
        with store.database.read():
            states = {worker.id: worker.status for worker in store.workers.list()}
            held = store.jobs.list(jobs.ACTIVE, limit=1000)
        found = [Sample(job.id, job.token, job.worker_id, states.get(job.worker_id or "")) for job in held]
        self._samples += found
        return found

    def _follow(self) -> list[Event]:
        """Read the event log on, as a subscriber does; what is new."""
        known = len(self._followed)
        while found := self._store.events.after(self._followed[-1].cursor if self._followed else "0"):
            self._followed += found
        return self._followed[known:]

    def _tell(self) -> None:
        assert self._reader is not None
        book = self._reader.read_on()
        counts = self._counts()
        final = sum(counts.get(state, 0) for state in jobs.FINAL)
        self._say(f"{len(book.accepted):,} jobs accepted, {final:,} over, {len(book.faults)} faults")

    def _counts(self) -> dict[str, int]:
        return count(self._store)

    # jobs

    def _offer(self, offer: Offer) -> None:
        """Offer jobs; they count as accepted once the ledger has their ids."""
        assert self._reader is not None
        accepted = self._reader.read_on().accepted
        numbers = [job.number for job in offer.jobs]
        self._crew.pen.write("offered", numbers=numbers)
        again = [self._plan.jobs[number] for number in sorted(accepted)[-1:]]  # its key must bring the same job again
        numbers += [job.number for job in again]
        try:
            ids = self._store.jobs.add_many([new_job(job, accepted) for job in (*offer.jobs, *again)])
        except RotaError as problem:
            self._refused.append(str(problem))
            return
        self._crew.pen.write("accepted", numbers=numbers, jobs=ids)

    def _work_off(self) -> bool:
        """Wait until nothing is left to do; false when that takes too long."""
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            counts = self._counts()
            busy = any(counts.get(state) for state in (jobs.READY, jobs.ACTIVE, jobs.SCHEDULED))
            if not busy and not self._later and sourced(self._store, self._plan, self._crew.folder).is_over:
                found = {job.id: job for job in every_job(self._store)}
                if all(blocked_for_good(job, found) for job in found.values() if job.status == jobs.BLOCKED):
                    return True
            self._pass_time(time.monotonic() + 0.05)
        return False

    # faults

    def _break(self, fault: Fault) -> None:
        if fault.kind == KILL_ORCHESTRATOR:
            self._kill_orchestrator(fault)
            return
        if fault.kind == KILL_API:
            self._kill_api(fault)
            return
        if fault.kind in (CUT, HOLD):
            self._trouble(fault)
            return
        if fault.kind in PEOPLE:
            self._act(fault)
            return
        life = self._struck(fault)
        if life is None:
            self._missed.append(fault.kind)
        elif fault.kind == FREEZE:
            self._thaw_later(seconds(fault.lasts), life)

    def _act(self, fault: Fault) -> None:
        """Do what people do, once there is something to do it to."""
        deadline = time.monotonic() + VICTIM_WITHIN
        while not self._people.act(fault):
            if time.monotonic() > deadline:
                self._missed.append(fault.kind)
                return
            self._pass_time(time.monotonic() + LOOK_AGAIN)
        self._crew.pen.write("fault", kind=fault.kind, store_at=self._store.now())

    def _trouble(self, fault: Fault) -> None:
        """Cut the crews' connections, or keep everyone from writing for a while."""
        store_at = self._store.now()
        if fault.kind == HOLD:
            holder = trouble.hold_lock(self._crew, seconds(fault.lasts))
            self._do_later(seconds(fault.lasts), holder.communicate)
        elif not trouble.cut_connections(self._crew):
            self._missed.append(fault.kind)
            return
        self._crew.pen.write("fault", kind=fault.kind, store_at=store_at)

    def _thaw_later(self, after: float, life: Life) -> None:
        """By a thread of its own: what was stopped may keep the store locked, and we may be waiting for that lock."""
        thaw = threading.Timer(after, lambda: self._crew.send(life, signal.SIGCONT))
        thaw.daemon = True
        thaw.start()
        self._do_later(after, lambda: self._thawed(thaw, life))

    def _thawed(self, thaw: threading.Thread, life: Life) -> None:
        thaw.join()
        self._crew.pen.write("thaw", worker=life.worker)

    def _kill_orchestrator(self, fault: Fault) -> None:
        """Kill one, and start it again after a while; one that is not there cannot be killed."""
        found = [each for each in self._crew.orchestrators.values() if each.pid is not None]
        if not found:
            self._missed.append(fault.kind)
            return
        victim = found[int(fault.choice * len(found))]
        self._crew.pen.write("fault", kind=fault.kind, store_at=self._store.now(), crew=victim.crew)
        moment, store_at = clock(), self._store.now()
        victim.kill()
        self._crew.pen.write("struck", moment=moment, store_at=store_at)
        self._do_later(seconds(fault.lasts), lambda: self._start_orchestrator(victim))

    def _start_orchestrator(self, which: Orchestrator) -> None:
        """Start it; an API that is not there yet is waited for, because from the beginning that is an error."""
        api = self._crew.api if which in self._crew.behind_api else None
        if api is None or api.is_up:
            which.start()
        else:
            self._do_later(SAMPLE_EVERY, lambda: self._start_orchestrator(which))

    def _kill_api(self, fault: Fault) -> None:
        """Kill the API under those behind it, and start it again after a while; while it is away, wait for it."""
        api = self._crew.api
        assert api is not None
        begun = time.monotonic() - UP_WITHIN / 10
        if api.pid is None or any(each.pid is None or each.started_at > begun for each in self._crew.behind_api):
            self._do_later(SAMPLE_EVERY, lambda: self._kill_api(fault))
            return
        self._crew.pen.write("fault", kind=fault.kind, store_at=self._store.now())
        moment, store_at = clock(), self._store.now()
        api.kill()
        self._crew.pen.write("struck", moment=moment, store_at=store_at)
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
        assert self._reader is not None
        lives = self._reader.read_on().living.values()
        now = clock()
        fit = [life for life in lives if queue in (None, life.queue) and _fits(fault.kind, life, now)]
        fit.sort(key=lambda life: life.slot)
        return fit[int(fault.choice * len(fit))] if fit else None


def clock() -> Instant:
    """The ledger's clock: on Linux all processes share it."""
    return time.monotonic_ns() // 1000


def strike(crew: Crew, store: Store, kind: str, life: Life, number: signal.Signals) -> bool:
    """Signal a worker. The ledger hears of it before, and after that of the very moment; false when it had gone."""
    crew.pen.write("fault", kind=kind, worker=life.worker, store_at=store.now())
    moment, store_at = clock(), store.now()
    if not crew.send(life, number):
        crew.pen.write("spared", worker=life.worker)
        return False
    crew.pen.write("struck", worker=life.worker, moment=moment, store_at=store_at)
    return True


def _fits(kind: str, life: Life, now: Instant) -> bool:
    if life.frozen or (life.faults and life.faults[-1].kind != FREEZE):
        return False
    match kind:
        case "hang":  # of a loop nobody ends what stands still: its lease lets another begin
            return life.is_seen
        case "kill busy":
            return life.in_hand is not None
        case "kill idle":
            return life.in_hand is None and now - life.idle_since > IDLE_FOR
        case _:
            return True


def new_job(planned: PlannedJob, accepted: dict[int, int]) -> NewJob:
    """The job that a plan's line means, once the jobs that it waits for have ids."""
    after = [accepted[number] for number in planned.after if number in accepted]
    payload: dict[str, Any] = {"ms": planned.milliseconds}
    return NewJob(
        f"{planned.kind} {planned.number}",
        planned.queue,
        kind_of(planned.kind, planned.queue),
        payload,
        planned.priority,
        after,
        key=str(planned.number),
        max_attempts=MANY_ATTEMPTS,
    )
