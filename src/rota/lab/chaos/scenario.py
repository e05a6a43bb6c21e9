"""A storm from beginning to end: the plan is carried out on a real crew, the queue worked off and the crew stopped."""

from __future__ import annotations

import os
import tempfile
import time
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from rota.core import job as jobs
from rota.core import worker as workers
from rota.core.errors import Refused, RotaError
from rota.core.event import WorkerChanged
from rota.core.job import NewJob
from rota.lab.chaos import crew_processes, report
from rota.lab.chaos.injector import Injector
from rota.lab.chaos.lab_crew import LEDGER_SOCKET, LabCrew
from rota.lab.chaos.ledger_reader import LedgerReader
from rota.lab.chaos.plan import PLANNED, Offer, draw, kind_of, seconds
from rota.lab.chaos.replay import Replay, Served
from rota.lab.chaos.snapshot import Sample, Violation, Watch, blocked_for_good, count, every_job, sourced, take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rota.core.event import Event
    from rota.demo.postgres_server import OwnServer
    from rota.lab.chaos.crew_processes import Vitals
    from rota.lab.chaos.ledger_reader import Execution, Ledger, Life
    from rota.lab.chaos.plan import Options, Plan, PlannedJob
    from rota.lab.chaos.snapshot import Sample, Snapshot, Violation

MANY_ATTEMPTS = 1000
SAMPLE_EVERY, PROGRESS_EVERY = 0.25, 5.0
WORK_OFF_WITHIN = 120.0
SETTLE_WITHIN = 3.0


def run(
    options: Options, say: Callable[[str], None], url: str | None = None, server: OwnServer | None = None
) -> dict[str, Any]:
    """Run one storm in a temporary folder, which is kept if something went wrong.

    Args:
        options: What was asked for; the seed decides everything else.
        say: Prints progress.
        url: A PostgreSQL server, on which the storm gets a schema of its own; it is kept as the folder is.
        server: The server at this URL, if it was started for the storm and may be crashed.

    Returns:
        The document of the storm.
    """
    if not os.path.isdir("/proc/self/fd"):
        raise Refused("chaos needs Linux: it looks at processes through /proc")
    folder = tempfile.mkdtemp(prefix="rota-chaos-")
    plan = draw(options)
    say(f"seed {options.seed}: {options.jobs} jobs, {len(plan.faults)} faults, {options.minutes:g} min, in {folder}")
    crew = LabCrew(folder, options.shape, url=url)
    crew.server = server
    try:
        document = _run_plan(crew, plan, say)
    except KeyboardInterrupt:
        crew.close()
        crew.remove()
        raise
    if report.is_good(document):
        crew.remove()
    else:
        say(f"kept for a look: {folder}" + (f", and the schema {crew.schema}" if crew.schema else ""))
    return document


def compare(
    options: Options, say: Callable[[str], None], url: str | None = None, server: OwnServer | None = None
) -> dict[str, Any]:
    """Run the jobs without a fault first; the document of the storm then contains both paces."""
    say("first without a fault")
    calm = run(options.replace(faults=0), say, url, server)
    if not report.is_good(calm):
        return calm
    document = run(options, say, url, server)
    pace = calm["jobs_per_second"]  # 0 if there were only one or two jobs
    document["of_the_undisturbed_pace"] = round(document["jobs_per_second"] / pace, 3) if pace else None
    document["undisturbed_turnaround_ms"] = calm["turnaround_ms"]
    return document


def _run_plan(crew: LabCrew, plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """Run a plan, and end every process of the crew whatever happens."""
    try:
        scenario = Scenario(crew, plan, say)
        try:
            return report.document(scenario.run())
        finally:
            scenario.close()
    finally:
        crew.close()


class Scenario:
    """Carries out one plan. The plan's times count from the moment at which the whole crew is up."""

    def __init__(
        self, crew: LabCrew, plan: Plan, say: Callable[[str], None], work_off_within: float = WORK_OFF_WITHIN
    ) -> None:
        self._crew = crew
        self._plan = plan
        self._say = say
        self._work_off_within = work_off_within
        self._store = crew.open()
        self._reader: LedgerReader | None = None
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._samples: list[Sample] = []
        self._followed: list[Event] = []
        self._refused_offers: list[str] = []
        self._violations: list[Violation] = []
        self._online_checks = OnlineChecks(in_order=plan.options.store != "postgres")
        self._next_sample = self._next_progress = self._began = 0.0

    def run(self) -> Snapshot:
        """Run the storm from beginning to end, and return its final state to be checked."""
        crew = self._crew
        for queue, limit in crew.limits.items():
            self._store.queues.set(queue, concurrency=limit)
        crew.start()
        if not crew.wait_until_whole(self._store):
            raise Refused(f"the crew did not come up: see {crew.main.log}")
        self._reader = LedgerReader(crew.ledger_path)
        before = {name: crew_processes.vitals(process.pid or 0) for name, process in crew.orchestrators.items()}
        missed = self._carry_out_plan()
        self._say("the storm is over: working off the queue")
        watch = self._finish(before, missed)
        self._store.close()
        remains = crew_processes.remains(crew.folder, crew.mark, (LEDGER_SOCKET,))
        with crew.open() as store:
            return take(store, self._plan, self._reader.read_on(), watch, remains, crew.folder)

    def close(self) -> None:
        self._store.close()
        if self._reader is not None:
            self._reader.close()

    def _carry_out_plan(self) -> list[str]:
        """Offer jobs and inject faults at their times; return the kinds of the faults that found nothing to hit."""
        assert self._reader is not None
        injector = Injector(self._crew, self._store, self._reader, self._pass_time, self._do_later)
        self._began = began = time.monotonic()
        for step in self._plan.steps:
            self._pass_time(began + seconds(step.at))
            if isinstance(step, Offer):
                self._offer(step)
            else:
                injector.inject(step)
        self._pass_time(began + seconds(self._plan.options.span))
        return injector.missed

    def _finish(self, before: dict[str, Vitals], missed: list[str]) -> Watch:
        """Work off the queue, let the crew become whole again, and stop it."""
        crew = self._crew
        worked_off = self._work_off()
        whole = crew.wait_until_whole(self._store)
        after = {
            name: crew_processes.settled(process.pid, before[name], SETTLE_WITHIN)
            for name, process in crew.orchestrators.items()
            if whole and process.pid
        }
        stop_seconds, stop_code = crew.stop()
        self._judge([], self._follow())
        return Watch(
            samples=tuple(self._samples),
            followed=tuple(self._followed),
            missed=tuple(missed),
            refused_offers=tuple(self._refused_offers),
            unasked_exits=tuple(crew.unasked_exits),
            before=before,
            after=after,
            worked_off=worked_off,
            stop_seconds=stop_seconds,
            stop_code=stop_code,
            violations=tuple(self._violations),
        )

    def _pass_time(self, until: float) -> None:
        """Wait until a moment; meanwhile run due timers, keep the crew running, and check what happens."""
        while True:
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                heappop(self._timers)[2]()
            if now >= self._next_sample:
                self._next_sample = now + SAMPLE_EVERY
                self._crew.restart_ended()
                self._judge(self._sample(), self._follow())
            if now >= self._next_progress:
                self._next_progress = now + PROGRESS_EVERY
                self._say_progress()
            due = min(until, self._next_sample, *(at for at, _, _ in self._timers[:1]))
            if now >= until:
                return
            time.sleep(max(0.0, due - now))

    def _do_later(self, after: float, function: Callable[[], object]) -> None:
        heappush(self._timers, (time.monotonic() + after, len(self._timers) + time.monotonic_ns(), function))

    def _judge(self, samples: list[Sample], events: list[Event]) -> None:
        """Check what is new, and report violations at once, with their moment."""
        assert self._reader is not None
        at = round(time.monotonic() - self._began, 1)
        for violation in self._online_checks.check(self._reader.read_on(), events, samples):
            self._violations.append(violation.replace(at=at))
            self._say(f"violated after {at} s: {violation.invariant}: {violation.text}")

    def _sample(self) -> list[Sample]:
        """Read, in one transaction, which jobs are active and with which workers."""
        store = self._store
        with store.database.read():
            states = {worker.id: worker.status for worker in store.workers.list()}
            active = store.jobs.list(jobs.ACTIVE, limit=1000)
        samples = [Sample(job.id, job.token, job.worker_id, states.get(job.worker_id or "")) for job in active]
        self._samples += samples
        return samples

    def _follow(self) -> list[Event]:
        """Read on in the event log, as a subscriber does, and return what is new."""
        followed_before = len(self._followed)
        while events := self._store.events.after(self._followed[-1].cursor if self._followed else "0"):
            self._followed += events
        return self._followed[followed_before:]

    def _say_progress(self) -> None:
        assert self._reader is not None
        ledger = self._reader.read_on()
        counts = count(self._store)
        final = sum(counts.get(state, 0) for state in jobs.FINAL)
        self._say(f"{len(ledger.accepted):,} jobs accepted, {final:,} over, {len(ledger.faults)} faults")

    def _offer(self, offer: Offer) -> None:
        """Offer jobs; they count as accepted once the ledger has their ids."""
        assert self._reader is not None
        accepted = self._reader.read_on().accepted
        numbers = [job.number for job in offer.jobs]
        self._crew.ledger_writer.write("offered", numbers=numbers)
        # The latest job is offered again: its key must bring the id that it already has.
        again = [self._plan.jobs[number] for number in sorted(accepted)[-1:]]
        numbers += [job.number for job in again]
        try:
            ids = self._store.jobs.add_many([new_job(job, accepted) for job in (*offer.jobs, *again)])
        except RotaError as problem:
            self._refused_offers.append(str(problem))
            return
        self._crew.ledger_writer.write("accepted", numbers=numbers, jobs=ids)

    def _work_off(self) -> bool:
        """Wait until nothing is left to do; return false if that takes too long."""
        deadline = time.monotonic() + self._work_off_within
        while time.monotonic() < deadline:
            counts = count(self._store)
            busy = any(counts.get(state) for state in (jobs.READY, jobs.ACTIVE, jobs.SCHEDULED))
            if not busy and not self._timers and sourced(self._store, self._plan, self._crew.folder).is_over:
                offered = {job.id: job for job in every_job(self._store)}
                if all(blocked_for_good(job, offered) for job in offered.values() if job.status == jobs.BLOCKED):
                    return True
            self._pass_time(time.monotonic() + 0.05)
        return False


def new_job(planned: PlannedJob, accepted: dict[int, int]) -> NewJob:
    """Return the job of a plan's line. `accepted` has the ids of the jobs that it waits for, by their numbers."""
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


class OnlineChecks:
    """Judges invariants while the storm goes on: each check takes in what is new since the last one.

    `in_order`: events arrive in the order of their numbers.
    """

    def __init__(self, in_order: bool) -> None:
        self._in_order = in_order
        self._lives_checked = self._executions_checked = 0
        self._last: dict[int, Execution] = {}
        self._lives: dict[str, Life] = {}
        self._numbers: set[int] = set()
        self._highest = 0
        self._dead: set[str] = set()
        self._replays = [Replay({}, Served(queue)) for queue in PLANNED]
        self._moves_reported = [0] * len(self._replays)
        self._committed_again: set[int] = set()

    def check(self, ledger: Ledger, events: Sequence[Event], samples: Sequence[Sample]) -> list[Violation]:
        """Return the violations that are new. `events` and `samples` are those that are new since the last call."""
        return [*self._check_ledger(ledger), *self._check_events(events), *self._check_claims(samples)]

    def _check_ledger(self, ledger: Ledger) -> Iterator[Violation]:
        for life in ledger.lives[self._lives_checked :]:
            if (first_life := self._lives.setdefault(life.worker, life)).pid != life.pid:
                yield Violation("I17", f"{life.worker} was process {first_life.pid} and process {life.pid}")
        self._lives_checked = len(ledger.lives)
        for second in ledger.executions[self._executions_checked :]:
            first = self._last.get(second.job)
            self._last[second.job] = second
            if first is None:
                continue
            if first.overlaps(second, self._lives.get(first.worker)):
                still = f"while token {first.token} was still running"
                yield Violation("I1", f"job {second.job} began with token {second.token} {still}")
            if first.token_did_not_grow(second, self._lives.get(second.worker)):
                yield Violation("I2", f"job {second.job} began with token {second.token} after token {first.token}")
        self._executions_checked = len(ledger.executions)

    def _check_events(self, events: Sequence[Event]) -> Iterator[Violation]:
        for event in events:
            if event.number in self._numbers:
                yield Violation("I23", f"a follower read event {event.cursor} twice")
            elif self._in_order and event.number < self._highest:
                yield Violation("I23", f"cursor {event.cursor} came after {self._highest}")
            self._numbers.add(event.number)
            self._highest = max(self._highest, event.number)
            for fact in event.of(WorkerChanged, workers.DIE):
                if fact.subject in self._dead:
                    yield Violation("I9", f"{fact.subject} died once more (event {event.cursor})")
                self._dead.add(fact.subject)
        for place, replay in enumerate(self._replays):
            replay.play(events, ())
            for text in replay.wrong_moves[self._moves_reported[place] :]:
                yield Violation("I4", text)
            self._moves_reported[place] = len(replay.wrong_moves)
            for job, times in replay.finishes.items():
                if times > 1 and job not in self._committed_again:
                    self._committed_again.add(job)
                    yield Violation("I6", f"job {job} was committed {times} times")

    def _check_claims(self, samples: Sequence[Sample]) -> Iterator[Violation]:
        for sample in samples:
            if sample.token is None or sample.worker_status not in workers.LIVE:
                held = f"with {sample.worker} and token {sample.token}"
                yield Violation("I3", f"job {sample.job} was active {held}, which nobody living has")
