"""Everything that is known when a storm is over, as one value: what the invariants are checked on."""

from __future__ import annotations

import glob
import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core import worker as workers
from rota.core.errors import NotFound
from rota.core.event import WorkerChanged
from rota.core.record import Record
from rota.core.slot import RestartPolicy
from rota.core.times import SECOND
from rota.lab.chaos.handlers import MARKS, SOURCE
from rota.lab.chaos.plan import PLANNED, POISON, SOURCED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rota.core.claim import Run
    from rota.core.event import Event
    from rota.core.job import Job
    from rota.core.times import Duration
    from rota.core.worker import Worker
    from rota.lab.chaos.crew_processes import Remains, Vitals
    from rota.lab.chaos.ledger_reader import Ledger
    from rota.lab.chaos.plan import Plan
    from rota.store.store import Store
    from rota.store.workers.registration import Certificate
    from rota.store.workers.slots import Slot

PAGE = 1000


class Violation(Record):
    """A breach of an invariant. `at`: how many seconds into the storm it was seen; None when it was seen afterwards."""

    invariant: str
    text: str
    at: float | None = None


class Sample(Record):
    """A claim at some moment, with the state of its worker then; None if there was no such worker."""

    job: int
    token: int | None
    worker: str | None
    worker_status: str | None


class Watch(Record):
    """Observations made during the storm and at its end."""

    samples: tuple[Sample, ...]
    followed: tuple[Event, ...]
    missed: tuple[str, ...]
    refused_offers: tuple[str, ...]
    unasked_exits: tuple[int, ...]
    before: Mapping[str, Vitals]
    after: Mapping[str, Vitals]
    worked_off: bool
    stop_seconds: float
    stop_code: int | None
    violations: tuple[Violation, ...] = ()


class Sourced(Record):
    """The state of the source's keys: how many succeeded according to the store, which failed, which have no mark."""

    keys: int = 0
    successes: int = 0
    failed: tuple[Job, ...] = ()
    unmarked: frozenset[str] = frozenset()

    @property
    def is_over(self) -> bool:
        return self.successes + len(self.failed) >= self.keys


class Snapshot(Record):
    """A storm that is over: its plan, the ledger, what was observed, the store, and what is left on the system."""

    plan: Plan
    ledger: Ledger
    watch: Watch
    remains: Remains
    policy: RestartPolicy
    jobs: Mapping[int, Job]
    runs: tuple[Run, ...]
    events: tuple[Event, ...]
    workers: Mapping[str, Worker]
    certificates: Mapping[str, Certificate]
    slots: tuple[Slot, ...]
    counts: Mapping[str, int]
    refused_outcomes: int = 0
    sourced: Sourced = Sourced()
    limits: Mapping[str, int] = MappingProxyType({})

    @property
    def crews(self) -> dict[str, str]:
        """The crew of each slot."""
        return {slot.name: slot.crew for slot in self.slots}

    @property
    def kinds(self) -> dict[int, str]:
        """The planned kind of each accepted job."""
        planned = self.plan.jobs
        return {id: planned[number].kind for number, id in self.ledger.accepted.items()}

    @property
    def commit_overlap(self) -> Duration:
        """For how long transactions may run side by side without seeing each other. SQLite has one writer at a time."""
        return SECOND if self.plan.options.store == "postgres" else 0

    @property
    def lost(self) -> list[str]:
        """Accepted jobs that are missing, or that are neither over nor waiting for one that failed."""
        losses = []
        for id in self.ledger.accepted.values():
            job = self.jobs.get(id)
            if job is None:
                losses.append(f"job {id} was accepted, and is not there")
            elif job.status not in jobs.FINAL and not (job.status == jobs.BLOCKED and blocked_for_good(job, self.jobs)):
                losses.append(f"job {id} is still {job.status}")
        return losses

    def is_expected_to_fail(self, id: int) -> bool:
        """Whether a job is poison, was cancelled by an operator, or cost three workers that the storm itself killed."""
        if self.jobs[id].status == jobs.CANCELLED:
            return id in self.ledger.called_off
        return self.kinds.get(id) == POISON or self.jobs[id].deaths >= jobs.DEATHS_TO_QUARANTINE


def take(store: Store, plan: Plan, ledger: Ledger, watch: Watch, remains: Remains, folder: str) -> Snapshot:
    """Read the whole store through its ports, once nothing else uses it."""
    offered = {job.id: job for job in every_job(store)}
    events = tuple(_every_event(store))
    registered = {id: store.workers.get(id) for id in _registered(events)}
    certificates = {id: certificate for id in registered if (certificate := store.workers.certificate(id)) is not None}
    queues = [status.queue for status in store.queues.list()]
    return Snapshot(
        plan=plan,
        ledger=ledger,
        watch=watch,
        remains=remains,
        policy=store.settings.restarts,
        jobs=offered,
        runs=tuple(sorted((run for id in offered for run in store.claims.runs(id)), key=lambda run: run.token)),
        events=events,
        workers=registered,
        certificates=certificates,
        slots=tuple(store.slots.all()),
        counts=count(store),
        refused_outcomes=_refused_outcomes(folder) + ledger.refused_late,
        sourced=sourced(store, plan, folder),
        limits={queue.name: queue.concurrency for queue in queues if queue.concurrency is not None},
    )


def every_job(store: Store) -> Iterator[Job]:
    """Read every job that was offered. Jobs of a source are left out: they leave no row when they are done."""
    before = None
    while page := store.jobs.list(limit=PAGE, before=before):
        yield from (job for job in page if job.queue in PLANNED)
        before = page[-1].id


def count(store: Store) -> dict[str, int]:
    """Return how many of the offered jobs are in each state, as the store counts them."""
    counts: dict[str, int] = {}
    for status in store.queues.list():
        for state, n in status.counts.items() if status.queue.name in PLANNED else ():
            counts[state] = counts.get(state, 0) + n
    return counts


def sourced(store: Store, plan: Plan, folder: str) -> Sourced:
    """Read the state of the source's keys from the store and from the marks in the crew's folder."""
    keys = plan.options.keys
    try:
        successes = store.sources.get(SOURCE).success_count
    except NotFound:
        successes = 0
    failed = tuple(store.jobs.list(jobs.FAILED, SOURCED, limit=PAGE))
    marks = os.path.join(folder, MARKS)
    unmarked = [key for key in map(str, range(keys)) if not os.path.exists(os.path.join(marks, key))]
    return Sourced(keys, successes, failed, frozenset(unmarked))


def blocked_for_good(job: Job, others: Mapping[int, Job]) -> bool:
    """Return whether a job waits for one that failed or was cancelled, or for one that is itself blocked for good."""
    needs = [others[id] for id in job.after if id in others]
    return any(need.status in (jobs.FAILED, jobs.CANCELLED) for need in needs) or any(
        need.status == jobs.BLOCKED and blocked_for_good(need, others) for need in needs
    )


def _every_event(store: Store) -> Iterator[Event]:
    cursor = "0"
    while page := store.events.after(cursor, PAGE):
        yield from page
        cursor = page[-1].cursor


def _registered(events: tuple[Event, ...]) -> list[str]:
    return [fact.subject for event in events for fact in event.of(WorkerChanged, workers.REGISTER)]


def _refused_outcomes(folder: str) -> int:
    """Count the outcomes that the orchestrators refused, as their logs report it."""
    refused = 0
    for path in glob.glob(os.path.join(folder, "*.log")):
        with open(path, encoding="utf-8", errors="replace") as file:
            refused += sum("was refused" in line for line in file)
    return refused
