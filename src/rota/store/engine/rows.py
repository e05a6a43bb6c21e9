"""Rows as values: which columns a statement answers with, and the record made of them."""

from __future__ import annotations

from rota.core import claim, job, orchestrator, slot, worker
from rota.core.claim import Claim, Run
from rota.core.job import Job
from rota.core.jsontext import compact
from rota.core.queue import Queue
from rota.core.schedule import Schedule
from rota.core.source import Source
from rota.core.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Row = tuple[Any, ...]

_JOB = """id, title, queue, kind, status, blocked_on, priority, payload, parent, key, limit_key, attempts, max_attempts,
    timeout, generation, deaths, lapses, dependents, due_at, due_wall, created_at, claimed_at, finished_at, token,
    worker, orchestrator, lease, lease_expires_at, renewed_count, result, error, note, checkpoint, source,
    transcript_path, stderr_path, isolated, trace, scheduled_for"""
_WORKER = """id, name, hostname, pid, status, desired, orchestrator, slot, queue, version, registered_at,
    last_heartbeat_at, heartbeat_interval, heartbeat_count, success_count, error_count, last_error_at,
    last_error_message, current_job, metadata, concurrency"""
_QUEUE = """name, paused_at, paused_by, pause_reason, max_depth, rate, rate_next_at, concurrency, per_key, breaker,
    failures, fence"""
_SLOT = """name, queue, n, crew, host, status, worker, wanted, start_at, health, restarts, lifetime, failed_at,
    failure_reason, unstarted"""
_SOURCE = """name, queue, task, every, low, batch, repeats, filler, more, fill_count, added_count, last_fill_at,
    last_fill_error, success_count, error_count, last_success_at, last_success_worker, last_error_at,
    last_error_message, last_error_worker, repeated_count, last_repeated_key"""
_SCHEDULE = """name, cron, timezone, missed, queue, kind, payload, priority, max_attempts, timeout, declared,
    next_at, last_at, fired_at, fired_count, last_job, error, paused_at, pause_reason,
    (SELECT job.status FROM job WHERE job.id = schedule.last_job)"""
_TOKEN = "id, name, scopes, created_by, created_at, last_used_at, revoked_at"  # noqa: S105 - columns
_RUN = """token, job, worker, attempt, claimed_at, ended_at, verb, reason, error, note, renewed_count, transcript_path,
    stderr_path"""


def _one_of(column: str, names: Iterable[str]) -> str:
    return "(" + " OR ".join(f"{column} = '{name}'" for name in names) + ")"


GAPS = {
    "job_columns": _JOB,
    "worker_columns": _WORKER,
    "queue_columns": _QUEUE,
    "run_columns": _RUN,
    "slot_columns": _SLOT,
    "source_columns": _SOURCE,
    "schedule_columns": _SCHEDULE,
    "token_columns": _TOKEN,
    "job_state": _one_of("status", job.STATES),
    "job_blocker": _one_of("blocked_on", job.BLOCKERS),
    "worker_state": _one_of("status", worker.STATES),
    "orchestrator_state": _one_of("status", orchestrator.STATES),
    "slot_state": _one_of("status", slot.STATES),
    "claim_verb": _one_of("verb", (verb for state, verb in claim.MOVES if state)),
}


def to_job(row: Row) -> Job:
    return Job(*row)


def to_worker(row: Row) -> Worker:
    return Worker(*row)


def to_queue(row: Row) -> Queue:
    return Queue(*row)


def to_run(row: Row) -> Run:
    return Run(*row)


def to_source(row: Row) -> Source:
    return Source(*row)


def to_schedule(row: Row) -> Schedule:
    return Schedule(*row)


def to_claim(held: Job) -> Claim:
    """The live claim of an active job."""
    assert held.token is not None and held.worker_id is not None and held.claimed_at is not None
    return Claim(held.id, held.token, held.worker_id, held.claimed_at, held.lease_expires_at, held.renewed_count)


def by_id(values: Mapping[int, object]) -> str:
    """A value for each of many jobs, as a statement for all of them at once reads it."""
    return compact({str(id): value for id, value in values.items()})
