"""A storm: the plan, carried out on a real crew, until the queue is worked off and the crew has stopped."""

from __future__ import annotations

import time
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core.errors import Refused, RotaError
from rota.core.job import NewJob
from rota.lab.chaos import crew_processes
from rota.lab.chaos.expected import blocked_for_good
from rota.lab.chaos.injector import Injector
from rota.lab.chaos.lab_crew import LEDGER_SOCKET
from rota.lab.chaos.ledger_reader import LedgerReader
from rota.lab.chaos.online_checks import OnlineChecks
from rota.lab.chaos.plan import Offer, kind_of, seconds
from rota.lab.chaos.snapshot import Sample, Watch, count, every_job, sourced, take

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rota.lab.chaos.lab_crew import LabCrew
    from rota.lab.chaos.plan import Plan, PlannedJob
    from rota.lab.chaos.snapshot import Snapshot
    from rota.lab.chaos.violation import Violation
    from rota.store.events import Event

MANY_ATTEMPTS = 1000
SAMPLE_EVERY, TELL_EVERY = 0.25, 5.0
WORK_OFF_WITHIN = 120.0
SETTLE_WITHIN = 3.0


class Scenario:
    """Carries out one plan. The times of the plan count from the moment at which the whole crew is up."""

    def __init__(
        self, crew: LabCrew, plan: Plan, say: Callable[[str], None], work_off_within: float = WORK_OFF_WITHIN
    ) -> None:
        self._crew = crew
        self._plan = plan
        self._say = say
        self._patience = work_off_within
        self._store = crew.open()
        self._reader: LedgerReader | None = None
        self._later: list[tuple[float, int, Callable[[], object]]] = []
        self._samples: list[Sample] = []
        self._followed: list[Event] = []
        self._refused: list[str] = []
        self._violations: list[Violation] = []
        self._online_checks = OnlineChecks(in_order=plan.options.store != "postgres")
        self._next_sample = self._next_word = self._began = 0.0

    def run(self) -> Snapshot:
        """Blow from beginning to end; what is there then, to be checked."""
        crew = self._crew
        for queue, most in crew.limits.items():
            self._store.queues.set(queue, concurrency=most)
        crew.start()
        if not crew.wait_until_whole(self._store):
            raise Refused(f"the crew did not come up: see {crew.main.log}")
        self._reader = LedgerReader(crew.ledger_path)
        before = {name: crew_processes.vitals(each.pid or 0) for name, each in crew.orchestrators.items()}
        missed = self._blow(Injector(crew, self._store, self._reader, self._pass_time, self._do_later))
        self._say("the storm is over: working off the queue")
        watch = self._cease(before, missed)
        self._store.close()
        remains = crew_processes.remains(crew.folder, crew.mark, (LEDGER_SOCKET,))
        with crew.open() as store:
            return take(store, self._plan, self._reader.read_on(), watch, remains, crew.folder)

    def _blow(self, injector: Injector) -> list[str]:
        """Offer jobs and break what works on them, each when its time has come; the faults that hit nobody."""
        self._began = began = time.monotonic()
        for step in self._plan.steps:
            self._pass_time(began + seconds(step.at))
            if isinstance(step, Offer):
                self._offer(step)
            else:
                injector.carry_out(step)
        self._pass_time(began + seconds(self._plan.options.span))
        return injector.missed

    def _cease(self, before: dict[str, crew_processes.Vitals], missed: list[str]) -> Watch:
        """Work off the queue, let the crew become whole again, and stop it."""
        crew = self._crew
        worked_off = self._work_off()
        whole = crew.wait_until_whole(self._store)
        after = {
            name: crew_processes.settled(each.pid, before[name], SETTLE_WITHIN)
            for name, each in crew.orchestrators.items()
            if whole and each.pid
        }
        stop_seconds, stop_code = crew.stop()
        self._judge([], self._follow())
        return Watch(
            samples=tuple(self._samples),
            followed=tuple(self._followed),
            missed=tuple(missed),
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
        for found in self._online_checks.look(self._reader.read_on(), events, samples):
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
        ledger = self._reader.read_on()
        counts = self._counts()
        final = sum(counts.get(state, 0) for state in jobs.FINAL)
        self._say(f"{len(ledger.accepted):,} jobs accepted, {final:,} over, {len(ledger.faults)} faults")

    def _counts(self) -> dict[str, int]:
        return count(self._store)

    # jobs

    def _offer(self, offer: Offer) -> None:
        """Offer jobs; they count as accepted once the ledger has their ids."""
        assert self._reader is not None
        accepted = self._reader.read_on().accepted
        numbers = [job.number for job in offer.jobs]
        self._crew.ledger_writer.write("offered", numbers=numbers)
        again = [self._plan.jobs[number] for number in sorted(accepted)[-1:]]  # its key must bring the same job again
        numbers += [job.number for job in again]
        try:
            ids = self._store.jobs.add_many([new_job(job, accepted) for job in (*offer.jobs, *again)])
        except RotaError as problem:
            self._refused.append(str(problem))
            return
        self._crew.ledger_writer.write("accepted", numbers=numbers, jobs=ids)

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
