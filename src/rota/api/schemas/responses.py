"""Responses that are no nouns of their own: results of operations, and what the dashboard shows."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from rota import documents
from rota.api.schemas.derive import Answer, shaped
from rota.api.schemas.nouns import Orchestrator, Slot
from rota.api.schemas.requests import JobStatus, Scope, Timestamp
from rota.store.maintenance import prune, reconcile
from rota.store.workers import registration

Step = Annotated[int, Meta(description="how many seconds one step spans")]
Series = Annotated[list[float | None], Meta(description="one figure per step, oldest first; null where none is known")]


class Gone(Answer):
    """A job of a source, which was deleted when it was done, or a job that another has claimed since."""

    id: int
    status: JobStatus


@shaped(reconcile.Reconciled)
class Reconciled(Answer):
    """What reconcile found and repaired."""


@shaped(prune.Pruned)
class Pruned(Answer):
    """How many rows were deleted."""


class Info(Answer):
    """What runs here."""

    version: str
    worker_enabled: bool
    orchestrators: list[Orchestrator]
    slots: list[Slot]


class Lease(Answer):
    """When an orchestrator's lease expires, and the number of the last directive."""

    lease_expires_at: Timestamp
    directive: int


class Certified(Answer):
    """After how many seconds the slot is restarted; null with the reason if it is not."""

    starts_in: float | None
    reason: str | None


class Forgotten(Answer):
    """A source that was removed, with the number of its waiting jobs, which were removed too."""

    name: str
    jobs: int


class Removed(Answer):
    """A schedule that was removed."""

    name: str


class Ids(Answer):
    """The ids of jobs, in the order in which they were sent."""

    ids: list[int]


class Why(Answer):
    """Why a job is not running."""

    id: int
    why: str


class WhySlot(Answer):
    """Why a slot is as it is."""

    id: str
    why: str


class Advice(Answer):
    """What a worker should do."""

    id: str
    advice: Literal["continue", "stop", "pause"]


class Left(Answer):
    """A worker that was deregistered, and how many of its jobs were released."""

    id: str
    released: int


class Paused(Answer):
    """What was paused; `*` is everything."""

    paused: list[str]


class Resumed(Answer):
    """What was resumed; `*` is everything."""

    resumed: list[str]


class Scaled(Answer):
    """How many workers a queue should have."""

    queue: str
    count: int
    crew: str


class Draining(Answer):
    """The orchestrators that were asked, by process."""

    draining: list[int]


class Code(Answer):
    """A one-time code, and the link that it makes."""

    code: str
    link: str
    expires_in: int


class Clock(Answer):
    """The store's clock, by which leases expire, and the wall clock, by which jobs fall due."""

    now: Timestamp
    wall: Timestamp


class Kept(Answer):
    """The job whose claim was updated."""

    id: int


class Alive(Answer):
    """The process answers; for `readyz` the store does too."""

    status: Literal["ok"]


class Me(Answer):
    """The caller's token."""

    id: str
    name: str
    scopes: list[Scope]


class Notice(Answer):
    """Something that needs attention; a run is named by its job, and failures by their queue."""

    noun: Literal["host", "slot", "queue", "failures", "schedule", "job", "run"]
    which: str
    text: str
    since: Timestamp | None


@shaped(registration.Certificate, documents.DEATH.fields)
class Death(Answer):
    """How a worker died, with its last frame and output."""


class Output(Answer):
    """Part of what a run wrote. `next` is the offset to read on from; `is_live` while more may come."""

    job_id: int
    run_id: str
    stream: Literal["transcript", "stderr"]
    host: str | None
    is_live: bool
    size: int
    offset: int
    next: int
    text: str


class Node(Answer):
    """A job among those that wait for each other."""

    id: int
    title: str
    queue: str
    status: JobStatus


class Graph(Answer):
    """What a job waits for and what waits for it, a few steps far; an edge is a job and one that it needs."""

    nodes: list[Node]
    edges: list[tuple[int, int]]
    is_whole: bool


class Throughput(Answer):
    """Throughput of the last minutes, step by step. Times are medians and 95th percentiles in seconds."""

    step: Step
    finished: Series
    failed: Series
    pickup_p50: Series
    pickup_p95: Series
    run_p50: Series
    run_p95: Series
    rates: dict[str, float]
    until: Timestamp


class TrackedWorker(Answer):
    """A worker in the tracking tables."""

    id: str
    version: str | None
    started: Timestamp
    expected_heartbeat_interval: float
    last_heartbeat: Timestamp
    heartbeat_count: int
    success_count: int
    error_count: int
    last_error_at: Timestamp | None
    last_error_message: str | None


class Vectorizer(Answer):
    """One vectorizer's progress; `health` is the share that succeeded."""

    id: int
    source_table: str | None
    success_count: int
    error_count: int
    health: float | None
    last_success_at: Timestamp | None
    last_error_at: Timestamp | None
    last_error_message: str | None
    updated_at: Timestamp | None


class Tracking(Answer):
    """Workers and vectorizers in the tracking tables; `enabled` is false where no database is set for them."""

    enabled: bool
    workers: int
    live: int
    dead: int
    live_workers: list[TrackedWorker]
    dead_workers: list[TrackedWorker]
    vectorizers: list[Vectorizer]
