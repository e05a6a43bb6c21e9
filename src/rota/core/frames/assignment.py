"""A job on its way to a worker: as the store assigns it, as a RUN frame carries it, and as the worker reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.ids import run_id
from rota.core.jsontext import compact, quote
from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.core.claim import Claim, Run
    from rota.core.job import Job
    from rota.core.times import Duration, Instant

LONGEST_PREVIOUS_ERROR = 2000
_SELDOM = frozenset({"checkpoint", "key", "trace", "scheduled_for", "fence", "whole", "previous_runs"})


class Assignment(Record):
    """A claim as an orchestrator hands it to a worker. `fenced`: its run must never overlap with another.

    The payload and the checkpoint are JSON as text, as the store has it: only the worker reads it, so that one which
    nobody can read fails its own job and no crew.

    `isolated`: no other job may run beside it in its worker. `scheduled_for`: the time of its schedule that it is for.
    """

    job_id: int
    token: int
    worker_id: str
    queue: str
    kind: str
    title: str
    payload_text: str | None
    priority: int
    attempt: int
    max_attempts: int
    timeout: Duration | None
    checkpoint_text: str | None
    fenced: bool = False
    key: str | None = None
    previous_runs: tuple[Run, ...] = ()
    isolated: bool = False
    whole: Job | None = None
    source: str | None = None
    trace: str | None = None
    scheduled_for: Instant | None = None


class PreviousRun(Record):
    """What an earlier attempt at the same job did, as `rota runs` shows it."""

    run_id: str
    worker_id: str | None
    attempt: int | None
    status: str | None
    reason: str | None
    error: str | None
    note: str | None

    def document(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self._fields}


class RunJob:
    """A job as the worker that runs it knows it: what the frame says, and how its run is limited.

    `deadline` is a moment of `time.monotonic()`; `cancelled` is the reason if the run was cancelled.
    """

    # Not a Record, and not frozen: a worker makes one for each job, and most jobs have the defaults of the class.
    title: str = ""
    payload: str | None = None
    priority: int = 0
    attempt: int = 1
    max_attempts: int = 1
    timeout: Duration | None = None
    checkpoint: str | None = None
    key: str | None = None
    trace: str | None = None
    scheduled_for: Instant | None = None
    is_fenced: bool = False
    whole: dict[str, Any] | None = None
    previous_runs: Sequence[PreviousRun] = ()
    deadline: float | None = None
    cancelled: str | None = None

    def __init__(self, id: int, token: int, kind: str, queue: str | None = None) -> None:
        self.id = id
        self.token = token
        self.kind = kind
        self.queue = queue

    @property
    def run_id(self) -> str:
        return run_id(self.token)


def encode(claim: Assignment, whole: Mapping[str, object] | None = None) -> str:
    """Return the document of a job in a RUN frame, as JSON; what is not set is left out.

    Args:
        claim: What the store assigned.
        whole: The whole job as people read it, for a worker that wants it.
    """
    # Written by hand, because an orchestrator pays for this with every job.
    payload = "null" if claim.payload_text is None else quote(claim.payload_text)
    text = (
        f'{{"id":{claim.job_id},"token":{claim.token},"queue":{quote(claim.queue)},"kind":{quote(claim.kind)},'
        f'"title":{quote(claim.title)},"payload":{payload},"priority":{claim.priority},"attempt":{claim.attempt},'
        f'"max_attempts":{claim.max_attempts}'
    )
    more = _seldom(claim, whole)
    return f"{text},{compact(more)[1:]}" if more else text + "}"


def _seldom(claim: Assignment, whole: Mapping[str, object] | None) -> dict[str, object]:
    """Return the fields that few jobs have."""
    document: dict[str, object] = {}
    if claim.timeout is not None:
        document["timeout"] = claim.timeout
    if claim.checkpoint_text is not None:
        document["checkpoint"] = claim.checkpoint_text
    if claim.key is not None:
        document["key"] = claim.key
    if claim.trace is not None:
        document["trace"] = claim.trace
    if claim.scheduled_for is not None:
        document["scheduled_for"] = claim.scheduled_for
    if claim.fenced:
        document["fence"] = "end"
    if whole is not None:
        document["whole"] = whole
    if claim.previous_runs:
        document["previous_runs"] = [
            _previous(run, run.error and run.error[:LONGEST_PREVIOUS_ERROR]).document() for run in claim.previous_runs
        ]
    return document


def decode(document: object) -> RunJob | None:
    """Return the job that a RUN frame describes; None if it makes no sense."""
    if not isinstance(document, dict):
        return None
    get = document.get
    id, token, kind, queue, timeout = get("id"), get("token"), get("kind"), get("queue", ""), get("timeout")
    if not (
        isinstance(id, int)
        and isinstance(token, int)
        and isinstance(kind, str)
        and isinstance(queue, str | None)
        and isinstance(timeout, int | None)
    ):
        return None
    job = RunJob(id, token, kind, queue)
    job.title, job.payload, job.timeout = get("title", ""), get("payload"), timeout
    job.priority, job.attempt, job.max_attempts = get("priority", 0), get("attempt", 1), get("max_attempts", 1)
    if not _SELDOM.isdisjoint(document):
        job.checkpoint, job.key, job.trace = get("checkpoint"), get("key"), get("trace")
        job.scheduled_for, job.is_fenced, job.whole = get("scheduled_for"), get("fence") == "end", get("whole")
        if isinstance(runs := get("previous_runs"), list):
            job.previous_runs = [_previous_of(run) for run in runs if isinstance(run, dict)]
    return job


def of_claim(job: Job, claim: Claim, runs: Sequence[Run], deadline: float | None) -> RunJob:
    """Return a job that is claimed by hand, so that its handler gets the same context as in a worker.

    Args:
        job: The job.
        claim: Its claim.
        runs: What earlier claims did.
        deadline: When its run is ended, as a moment of `time.monotonic()`.
    """
    claimed = RunJob(job.id, claim.token, job.kind, job.queue)
    claimed.title, claimed.payload, claimed.priority = job.title, job.payload_json, job.priority
    claimed.attempt, claimed.max_attempts = job.attempts + 1, job.max_attempts
    claimed.timeout, claimed.deadline, claimed.scheduled_for = job.timeout, deadline, job.scheduled_for
    claimed.checkpoint, claimed.key, claimed.trace = job.checkpoint_json, job.key, job.trace
    claimed.previous_runs = [_previous(run, run.error) for run in runs]
    return claimed


def _previous_of(document: dict[str, Any]) -> PreviousRun:
    return PreviousRun(*[document.get(name) for name in PreviousRun._fields])  # type: ignore[arg-type]


def _previous(run: Run, error: str | None) -> PreviousRun:
    return PreviousRun(run.id, run.worker_id, run.attempt, run.status, run.reason, error, run.note)
