"""The nouns of the API: jobs, claims, workers, queues and the rest.

Their documents are written by `rota.documents`, so that they equal what the command line prints;
a test holds both together.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from rota.api.schemas.requests import Fence, JobStatus, Missed, Scope, Timestamp


class Answer(Struct):
    """A response, or a part of one."""


class JobDetails(Answer):
    """What the store knows of a job beyond its document; claim and holder are those of its last claim."""

    blocked_on: Literal["dependency", "limit", "kind"] | None
    key: str | None
    limit_key: str | None
    timeout: float | None
    generation: int
    deaths: int
    lapses: int
    claimed_at: Timestamp | None
    token: int | None
    worker_id: str | None
    orchestrator: int | None
    lease: float | None
    lease_expires_at: Timestamp | None
    renewed_count: int
    checkpoint: Any
    source: str | None
    transcript_path: str | None
    stderr_path: str | None
    trace: str | None


class Job(Answer):
    """A job."""

    id: int
    title: str
    queue: str
    kind: str | None
    status: JobStatus
    priority: int
    payload: Any
    parent: int | None
    children: list[int]
    after: list[int]
    attempts: int
    max_attempts: int
    due_at: Timestamp | None
    created_at: Timestamp
    started_at: Timestamp | None
    finished_at: Timestamp | None
    result: Any
    error: str | None
    worker_id: str | None
    run_id: str | None
    note: str | None
    scheduled_for: Timestamp | None
    details: JobDetails | UnsetType = UNSET


class Needed(Answer):
    """A job that another waited for."""

    id: int
    title: str
    status: JobStatus
    result: Any
    error: str | None


class Claim(Answer):
    """The exclusive right to run one attempt of one job."""

    id: int
    job_id: int
    worker_id: str
    run_id: str
    token: int
    claimed_at: Timestamp
    lease_expires_at: Timestamp | None
    renewed_count: int
    status: Literal["active"]


class TakenJob(Job, kw_only=True):
    """A job with the claim that was made on it."""

    claim: Claim


class Run(Answer):
    """What one claim did."""

    id: str
    job_id: int
    worker_id: str
    token: int
    attempt: int
    status: Literal["completed", "failed", "released", "expired"]
    verb: str
    reason: str | None
    error: str | None
    note: str | None
    claimed_at: Timestamp
    ended_at: Timestamp
    renewed_count: int
    transcript_path: str | None
    stderr_path: str | None


class WorkerDetails(Answer):
    """What the store knows of a worker beyond its document."""

    status: Literal["starting", "idle", "busy", "stopping", "stopped", "dead"]
    desired: str | None
    orchestrator: int | None
    queue: str | None
    concurrency: int


class Worker(Answer):
    """A worker."""

    id: str
    name: str
    hostname: str
    pid: int | None
    status: Literal["starting", "idle", "busy", "stopping", "stopped", "dead", "paused", "late"]
    registered_at: Timestamp
    last_heartbeat_at: Timestamp
    heartbeat_interval: float | None
    current_job: int | None
    slot: str | None
    version: str | None
    heartbeat_count: int
    success_count: int
    error_count: int
    last_error_at: Timestamp | None
    last_error_message: str | None
    metadata: dict[str, Any]
    details: WorkerDetails | UnsetType = UNSET


class Certificate(Answer):
    """How a worker died."""

    died_at: Timestamp
    reason: str
    text: str | None
    exit_code: int | None
    signal: int | None
    sent_by: str | None
    job_id: int | None


class Queue(Answer):
    """A queue with its limits and its counts by state."""

    name: str
    paused: bool
    paused_at: Timestamp | None
    paused_by: str | None
    pause_reason: str | None
    max_depth: int | None
    rate: str | None
    concurrency: int | None
    per_key: int | None
    breaker: int | None
    failures: int
    fence: Fence | None
    counts: dict[str, int]
    oldest_ready_at: Timestamp | None


class Slot(Answer):
    """A slot with the history of its restarts."""

    name: str
    queue: str | None
    crew: str
    host: str | None
    host_id: str
    wanted: bool
    status: Literal["empty", "starting", "up", "backoff", "stopping", "failed"]
    health: str | None
    worker_id: str | None
    restarts: int
    lifetime_restarts: int
    starts_in: float | None
    failure_reason: str | None


class Orchestrator(Answer):
    """An orchestrator that is not gone."""

    id: int
    status: Literal["starting", "running", "stopping", "stopped", "late", "killed"]
    crew: str
    hostname: str
    host_id: str
    pid: int
    version: str | None
    started_at: Timestamp
    last_reconcile_at: Timestamp | None


class Crew(Answer):
    """The orchestrator of this host, all slots, and the settings in force."""

    status: Literal["starting", "running", "stopping", "stopped"]
    pid: int | None
    host: str | None
    started_at: Timestamp | None
    last_reconcile_at: Timestamp | None
    pools: dict[str, int]
    slots: list[Slot]
    orchestrators: list[Orchestrator]
    settings: dict[str, Any]


class Token(Answer):
    """An access token, without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created_by: str
    created_at: Timestamp
    last_used_at: Timestamp | None
    revoked_at: Timestamp | None


class MadeToken(Token):
    """An access token with its secret, which is shown only once."""

    secret: str


class Source(Answer):
    """A source with its progress; `filler` is the internal job that adds jobs from it."""

    name: str
    queue: str
    task: str
    every: float
    low: int
    batch: int
    repeats: int | None
    counts: dict[str, int]
    added_count: int
    success_count: int
    error_count: int
    last_success_at: Timestamp | None
    last_success_worker: str | None
    last_error_at: Timestamp | None
    last_error_message: str | None
    last_error_worker: str | None
    repeated_count: int
    last_repeated_key: str | None
    filler: int
    filler_status: JobStatus | None
    fill_count: int
    last_fill_at: Timestamp | None
    last_fill_error: str | None
    next_fill_at: Timestamp | None


class Schedule(Answer):
    """A schedule; times are those of the wall clock."""

    name: str
    cron: str
    timezone: str
    missed: Missed
    queue: str
    kind: str | None
    payload: Any
    priority: int
    max_attempts: int | None
    timeout: float | None
    declared: bool
    paused: bool
    paused_at: Timestamp | None
    pause_reason: str | None
    next_at: Timestamp | None
    last_at: Timestamp | None
    fired_at: Timestamp | None
    fired_count: int
    last_job: int | None
    last_status: JobStatus | None
    error: str | None


class Event(Answer):
    """What one transaction changed. `cursor` is opaque: hand it back to read on from here."""

    cursor: str
    at: Timestamp
    actor: str
    facts: list[list[Any]]


class Fact(Answer):
    """A fact of the log; the field that names its noun says what changed."""

    id: str
    topic: str
    type: Literal["job_update", "queue_update", "worker_update", "source_update", "schedule_update", "health_update"]
    timestamp: int
    at: Timestamp
    actor: str
    job: dict[str, Any] | UnsetType = UNSET
    queue: dict[str, Any] | UnsetType = UNSET
    worker: dict[str, Any] | UnsetType = UNSET
    source: dict[str, Any] | UnsetType = UNSET
    schedule: dict[str, Any] | UnsetType = UNSET
    health: dict[str, Any] | UnsetType = UNSET


class Problem(Answer):
    """What went wrong (RFC 9457); `code` is the exit code that the command line would have."""

    type: str
    title: str
    status: int
    detail: str
    code: int
