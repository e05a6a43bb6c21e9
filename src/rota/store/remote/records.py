"""Documents of the API as the records that they were made from."""

from __future__ import annotations

from rota.core.claim import Claim, Run
from rota.core.errors import StoreError
from rota.core.job import Job
from rota.core.jsontext import encode
from rota.core.times import SECOND, instant_of
from rota.core.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from rota.core.times import Duration, Instant

    Document = dict[str, Any]
    R = TypeVar("R")

UNFIT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


def unfit(told: object) -> StoreError:
    """What is raised for a document that does not fit: something else answers, or a rota of another age."""
    return StoreError(
        f"this is not an answer of this rota's: is its version the same here and there? It says {told!r:.200}"
    )


def _fitting(read: Callable[[Document], R]) -> Callable[[Document], R]:
    def make(told: Document) -> R:
        try:
            return read(told)
        except UNFIT as problem:
            raise unfit(told) from problem

    make.__name__, make.__doc__ = read.__name__, read.__doc__
    return make


@_fitting
def job(told: Document) -> Job:
    """A job that was told with its details."""
    more = told["details"]
    return Job(
        id=told["id"],
        title=told["title"],
        queue=told["queue"],
        kind=told["kind"] or "",
        status=told["status"],
        blocked_on=more["blocked_on"],
        priority=told["priority"],
        payload_json=text(told["payload"]),
        parent=told["parent"],
        key=more["key"],
        limit_key=more["limit_key"],
        attempts=told["attempts"],
        max_attempts=told["max_attempts"],
        timeout=duration(more["timeout"]),
        generation=more["generation"],
        deaths=more["deaths"],
        lapses=more["lapses"],
        dependents=0,
        due_at=at(told["due_at"]),
        due_wall=0,
        created_at=at(told["created_at"]) or 0,
        claimed_at=at(more["claimed_at"]),
        finished_at=at(told["finished_at"]),
        token=more["token"],
        worker_id=more["worker_id"],
        orchestrator=more["orchestrator"],
        lease=duration(more["lease"]),
        lease_expires_at=at(more["lease_expires_at"]),
        renewed_count=more["renewed_count"],
        result_json=text(told["result"]),
        error=told["error"],
        note=told["note"],
        checkpoint_json=text(more["checkpoint"]),
        source=more["source"],
        transcript_path=more["transcript_path"],
        stderr_path=more["stderr_path"],
        trace=more["trace"],
        scheduled_for=at(told["scheduled_for"]),
        after=tuple(told["after"]),
        children=tuple(told["children"]),
    )


@_fitting
def claim(told: Document) -> Claim:
    return Claim(
        told["job_id"],
        told["token"],
        told["worker_id"],
        at(told["claimed_at"]) or 0,
        at(told["lease_expires_at"]),
        told["renewed_count"],
        told["status"],
    )


def claim_of(held: Job) -> Claim:
    """The live claim on a job."""
    assert held.token is not None and held.worker_id is not None
    return Claim(held.id, held.token, held.worker_id, held.claimed_at or 0, held.lease_expires_at, held.renewed_count)


@_fitting
def run(told: Document) -> Run:
    known = {name: told[name] for name in Run._fields if name in told}
    return Run(**{**known, "claimed_at": at(told["claimed_at"]), "ended_at": at(told["ended_at"])})


@_fitting
def worker(told: Document) -> Worker:
    """A worker that was told with its details."""
    known = {name: told[name] for name in Worker._fields if name in told}
    times = {name: at(told[name]) for name in ("registered_at", "last_heartbeat_at", "last_error_at")}
    every = duration(told["heartbeat_interval"])
    metadata = encode(told["metadata"]) if told["metadata"] else None
    return Worker(**{**known, **times, **told["details"], "heartbeat_interval": every, "metadata_json": metadata})


def at(told: str | None) -> Instant | None:
    return None if told is None else instant_of(told)


def text(value: object) -> str | None:
    """A value as the JSON text that the store keeps."""
    return None if value is None else encode(value)


def duration(seconds: float | None) -> Duration | None:
    return None if seconds is None else round(seconds * SECOND)


def seconds(duration: Duration | None) -> float | None:
    return None if duration is None else duration / SECOND
