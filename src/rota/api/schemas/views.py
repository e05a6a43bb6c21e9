"""Queries and responses of the dashboard: attention, deaths, output, graphs, throughput and tracking."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from rota import documents
from rota.api.schemas.derive import Answer, shaped
from rota.api.schemas.requests import JobStatus, Request, Scope, ShortText, Timestamp
from rota.store.workers import registration

Step = Annotated[int, Meta(description="how many seconds one step spans")]
Series = Annotated[list[float | None], Meta(description="one figure per step, oldest first; null where none is known")]


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


class DeathFilter(Request):
    """Which deaths to list: the newest, of one slot or worker or of any."""

    slot: ShortText | None = None
    worker: ShortText | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


@shaped(registration.Certificate, documents.DEATH.fields)
class Death(Answer):
    """How a worker died, with its last frame and output."""


class OutputFilter(Request):
    """Which part of a run's output: at most `limit` bytes from `offset`, or the end of it.

    `run` selects another run than the newest. `wait`: how many seconds to wait for more while the run is live.
    """

    run: ShortText | None = None
    stream: Literal["transcript", "stderr"] = "transcript"
    offset: Annotated[int, Meta(ge=0, le=1 << 50)] | None = None
    limit: Annotated[int, Meta(ge=1, le=262_144)] = 65_536
    wait: Annotated[int, Meta(ge=0, le=25)] = 0


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
