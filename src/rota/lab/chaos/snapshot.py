"""Everything that is known when a storm is over, as one value: what the invariants are checked on."""

from __future__ import annotations

import glob
import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core.errors import NotFound
from rota.core.record import Record
from rota.core.restart import RestartPolicy
from rota.lab.chaos.handlers import MARKS, SOURCE
from rota.lab.chaos.plan import PLANNED, SOURCED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rota.core.claim import Run
    from rota.core.job import Job
    from rota.core.worker import Worker
    from rota.lab.chaos.crew_processes import Remains, Vitals
    from rota.lab.chaos.ledger_reader import Ledger
    from rota.lab.chaos.plan import Plan
    from rota.lab.chaos.violation import Violation
    from rota.store.events import Event
    from rota.store.store import Store
    from rota.store.workers.registration import Certificate
    from rota.store.workers.slots import Slot

PAGE = 1000


class Sample(Record):
    """A claim as it stood at some moment, with the state of its worker then; None for no living worker."""

    job: int
    token: int | None
    worker: str | None
    worker_status: str | None


class Watch(Record):
    """What was seen while the storm blew and when it was over."""

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
    """What became of the source's keys: how many succeeded, by the store, and which failed or have no mark."""

    keys: int = 0
    successes: int = 0
    failed: tuple[Job, ...] = ()
    unmarked: frozenset[str] = frozenset()

    @property
    def is_over(self) -> bool:
        return self.successes + len(self.failed) >= self.keys


class Snapshot(Record):
    """A storm that is over: its plan, the ledger, what was watched, the store, and what the system still has."""

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


def take(store: Store, plan: Plan, ledger: Ledger, watch: Watch, remains: Remains, folder: str) -> Snapshot:
    """Read the whole store through its ports; nobody else uses it any more."""
    found = {job.id: job for job in every_job(store)}
    events = tuple(_every_event(store))
    workers = {id: store.workers.get(id) for id in _registered(events)}
    certificates = {id: certificate for id in workers if (certificate := store.workers.certificate(id)) is not None}
    return Snapshot(
        plan=plan,
        ledger=ledger,
        watch=watch,
        remains=remains,
        policy=store.settings.restarts,
        jobs=found,
        runs=tuple(sorted((run for id in found for run in store.claims.runs(id)), key=lambda run: run.token)),
        events=events,
        workers=workers,
        certificates=certificates,
        slots=tuple(store.slots.all()),
        counts=count(store),
        refused_outcomes=_refused_outcomes(folder) + ledger.refused_late,
        sourced=sourced(store, plan, folder),
        limits={each.queue.name: most for each in store.queues.list() if (most := each.queue.concurrency) is not None},
    )


def every_job(store: Store) -> Iterator[Job]:
    """Every job that was offered; those of a source leave no row when they are done."""
    before = None
    while page := store.jobs.list(limit=PAGE, before=before):
        yield from (job for job in page if job.queue in PLANNED)
        before = page[-1].id


def count(store: Store) -> dict[str, int]:
    """How many of the jobs that were offered are in which state, as the store counts them."""
    counts: dict[str, int] = {}
    for status in store.queues.list():
        for state, n in status.counts.items() if status.queue.name in PLANNED else ():
            counts[state] = counts.get(state, 0) + n
    return counts


def sourced(store: Store, plan: Plan, folder: str) -> Sourced:
    """What became of the source's keys by now, in a crew of this folder."""
    keys = plan.options.keys
    try:
        successes = store.sources.get(SOURCE).success_count
    except NotFound:
        successes = 0
    failed = tuple(store.jobs.list(jobs.FAILED, SOURCED, limit=PAGE))
    marks = os.path.join(folder, MARKS)
    unmarked = [key for key in map(str, range(keys)) if not os.path.exists(os.path.join(marks, key))]
    return Sourced(keys, successes, failed, frozenset(unmarked))


def _every_event(store: Store) -> Iterator[Event]:
    cursor = "0"
    while page := store.events.after(cursor, PAGE):
        yield from page
        cursor = page[-1].cursor


def _registered(events: tuple[Event, ...]) -> list[str]:
    return [fact[2] for event in events for fact in event.facts if fact[:2] == ["worker", "register"]]


def _refused_outcomes(folder: str) -> int:
    """How many outcomes the orchestrators refused, as they logged it."""
    found = 0
    for path in glob.glob(os.path.join(folder, "*.log")):
        with open(path, encoding="utf-8", errors="replace") as file:
            found += sum("was refused" in line for line in file)
    return found
