"""Rows as records: the columns that a statement answers with, taken from the fields of the record made of them."""

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
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from rota.core.record import Record

    Row = tuple[Any, ...]

_LAST_STATUS = "(SELECT job.status FROM job WHERE job.id = schedule.last_job)"
# The fields of `AccessToken`, which no hot verb imports. The hash of the secret is read by `token.hash` alone.
_TOKEN = "id, name, scopes, created_by, created_at, last_used_at, revoked_at"  # noqa: S105 - columns
_SLOT = """name, queue, n, crew, host, status, worker, wanted, start_at, health, restarts, lifetime, failed_at,
    failure_reason, unstarted"""


def _columns(record: type[Record], *without: str, **renamed: str) -> str:
    """Return the columns that a record is read from: its fields in order, some under another name, some not at all."""
    return ", ".join(renamed.get(field, field) for field in record._fields if field not in without)


def _one_of(column: str, names: Iterable[str]) -> str:
    return "(" + " OR ".join(f"{column} = '{name}'" for name in names) + ")"


# A job's relations are rows of their own: `job.relations` answers them for many jobs at once.
_JOB_COLUMNS = _columns(
    Job,
    "after",
    "children",
    payload_json="payload",
    worker_id="worker",
    result_json="result",
    checkpoint_json="checkpoint",
)

GAPS = {
    "job_columns": _JOB_COLUMNS,
    "worker_columns": _columns(Worker, metadata_json="metadata"),
    "queue_columns": _columns(Queue),
    "run_columns": _columns(Run, job_id="job", worker_id="worker"),
    "slot_columns": _SLOT,
    "source_columns": _columns(Source),
    "schedule_columns": _columns(Schedule, payload_json="payload", last_status=_LAST_STATUS),
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


def queues_by_name(rows: Iterable[Row]) -> dict[str, Queue]:
    return {queue.name: queue for queue in map(to_queue, rows)}


def to_run(row: Row) -> Run:
    return Run(*row)


def to_source(row: Row) -> Source:
    return Source(*row)


def to_schedule(row: Row) -> Schedule:
    return Schedule(*row)


def to_claim(held: Job) -> Claim:
    """Return the live claim of an active job."""
    assert held.token is not None and held.worker_id is not None and held.claimed_at is not None
    return Claim(held.id, held.token, held.worker_id, held.claimed_at, held.lease_expires_at, held.renewed_count)


def scalar(rows: Sequence[Row]) -> Any:
    """Return the value of a statement that answers one row with one column."""
    ((value,),) = rows
    return value


def by_id(values: Mapping[int, object]) -> str:
    """Encode a value for each of many jobs, as a statement for all of them at once reads it."""
    return compact({str(id): value for id, value in values.items()})
