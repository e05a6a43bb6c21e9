"""Everything that is known when a storm is over, as one value: what the invariants are checked on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rota.core.record import Record
from rota.core.restart import RestartPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rota.chaos.book import Book
    from rota.chaos.plan import Plan
    from rota.chaos.system import Remains, Vitals
    from rota.core.claim import Run
    from rota.core.job import Job
    from rota.core.worker import Worker
    from rota.store.events import Event
    from rota.store.slots import Slot
    from rota.store.store import Store
    from rota.store.workers import Certificate

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
    before: Vitals
    after: Vitals | None
    worked_off: bool
    stop_seconds: float
    stop_code: int | None


class Snapshot(Record):
    """A storm that is over: its plan, the ledger, what was watched, the store, and what the system still has."""

    plan: Plan
    book: Book
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

    @property
    def kinds(self) -> dict[int, str]:
        """The planned kind of each accepted job."""
        planned = self.plan.jobs
        return {id: planned[number].kind for number, id in self.book.accepted.items()}


def take(store: Store, plan: Plan, book: Book, watch: Watch, remains: Remains, log: str) -> Snapshot:
    """Read the whole store through its ports; nobody else uses it any more."""
    found = {job.id: job for job in every_job(store)}
    events = tuple(_every_event(store))
    workers = {id: store.workers.get(id) for id in _registered(events)}
    certificates = {id: certificate for id in workers if (certificate := store.workers.certificate(id)) is not None}
    counts: dict[str, int] = {}
    for queue in store.queues.list():
        for status, n in queue.counts.items():
            counts[status] = counts.get(status, 0) + n
    return Snapshot(
        plan=plan,
        book=book,
        watch=watch,
        remains=remains,
        policy=store.settings.restarts,
        jobs=found,
        runs=tuple(sorted((run for id in found for run in store.claims.runs(id)), key=lambda run: run.token)),
        events=events,
        workers=workers,
        certificates=certificates,
        slots=tuple(store.slots.all()),
        counts=counts,
        refused_outcomes=_refused_outcomes(log),
    )


def every_job(store: Store) -> Iterator[Job]:
    before = None
    while page := store.jobs.list(limit=PAGE, before=before):
        yield from page
        before = page[-1].id


def _every_event(store: Store) -> Iterator[Event]:
    cursor = "0"
    while page := store.events.after(cursor, PAGE):
        yield from page
        cursor = page[-1].cursor


def _registered(events: tuple[Event, ...]) -> list[str]:
    return [fact[2] for event in events for fact in event.facts if fact[:2] == ["worker", "register"]]


def _refused_outcomes(log: str) -> int:
    """How many outcomes the orchestrators refused, as they logged it."""
    if not os.path.exists(log):
        return 0
    with open(log, encoding="utf-8", errors="replace") as file:
        return sum("was refused" in line for line in file)
