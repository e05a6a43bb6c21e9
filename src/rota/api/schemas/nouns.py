"""The nouns of the API: jobs, claims, workers, queues and the rest.

Their fields and the order of these are declared in `rota.documents`, which writes their documents for the command line
too. A class here narrows types, such as a status to its values.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from rota import documents
from rota.api.schemas.derive import Answer, shaped
from rota.api.schemas.requests import Fence, JobStatus, Missed, Scope, Timestamp
from rota.core import access, claim, job, queue, schedule, source, worker
from rota.store.workers import crews, registration, slots


@shaped(job.Job, documents.JOB.rest(job.Job))
class JobDetails(Answer):
    """What the store knows of a job beyond its document; claim and holder are those of its last claim."""

    blocked_on: Literal["dependency", "limit", "kind"] | None


@shaped(job.Job, documents.JOB.fields)
class Job(Answer):
    """A job."""

    status: JobStatus
    details: JobDetails | UnsetType = UNSET


@shaped(job.Needed, documents.NEEDED.fields)
class Needed(Answer):
    """A job that another waited for."""

    status: JobStatus


@shaped(claim.Claim, documents.CLAIM.fields)
class Claim(Answer):
    """The exclusive right to run one attempt of one job."""

    status: Literal["active"]


class TakenJob(Job, kw_only=True):
    """A job with the claim that was made on it."""

    claim: Claim


@shaped(claim.Run, documents.RUN.fields)
class Run(Answer):
    """What one claim did."""

    status: Literal["completed", "failed", "released", "expired"]


@shaped(worker.Worker, documents.WORKER.rest(worker.Worker))
class WorkerDetails(Answer):
    """What the store knows of a worker beyond its document."""

    status: Literal["starting", "idle", "busy", "stopping", "stopped", "dead"]


@shaped(worker.Worker, documents.WORKER.fields)
class Worker(Answer):
    """A worker."""

    status: Literal["starting", "idle", "busy", "stopping", "stopped", "dead", "paused", "late"]
    metadata: dict[str, Any]
    details: WorkerDetails | UnsetType = UNSET


@shaped(registration.Certificate, documents.CERTIFICATE.fields)
class Certificate(Answer):
    """How a worker died."""


@shaped(queue.Queue, documents.QUEUE.fields)
class Queue(Answer):
    """A queue with its limits and its counts by state."""

    fence: Fence | None


@shaped(slots.Slot, documents.SLOT.fields)
class Slot(Answer):
    """A slot with the history of its restarts."""

    status: Literal["empty", "starting", "up", "backoff", "stopping", "failed"]


@shaped(crews.Live, documents.ORCHESTRATOR.fields)
class Orchestrator(Answer):
    """An orchestrator that is not gone."""

    status: Literal["starting", "running", "stopping", "stopped", "late", "killed"]


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


@shaped(access.AccessToken, documents.TOKEN.fields)
class Token(Answer):
    """An access token, without its secret."""

    scopes: list[Scope]


class MadeToken(Token):
    """An access token with its secret, which is shown only once."""

    secret: str


@shaped(source.Source, documents.SOURCE.fields)
class Source(Answer):
    """A source with its progress; `filler` is the internal job that adds jobs from it."""

    filler_status: JobStatus | None


@shaped(schedule.Schedule, documents.SCHEDULE.fields)
class Schedule(Answer):
    """A schedule; times are those of the wall clock."""

    missed: Missed
    last_status: JobStatus | None


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
