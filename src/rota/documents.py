"""The JSON document of each noun, the same on the command line, over HTTP, in MCP and in the feed.

Each noun declares its shape once, in a table below; `rota.api.schemas` makes the OpenAPI schema from the same table.
Field names and their order are a contract. Instants are ISO 8601 in UTC with `Z`, durations are seconds.
"""

from __future__ import annotations

from rota.core import job as jobs
from rota.core.ids import run_id
from rota.core.jsontext import Raw, is_sound
from rota.core.times import SECOND, format_instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rota.core.access import AccessToken
    from rota.core.claim import Claim, Run
    from rota.core.job import Job, Needed
    from rota.core.record import Record
    from rota.core.schedule import Schedule
    from rota.core.slot import RestartPolicy
    from rota.core.times import Duration, Instant
    from rota.core.worker import Worker
    from rota.settings import Settings
    from rota.store.maintenance.reconcile import Reconciled
    from rota.store.queues import QueueStatus
    from rota.store.sources import SourceStatus
    from rota.store.store import Store
    from rota.store.workers.crews import Live
    from rota.store.workers.registration import Certificate
    from rota.store.workers.slots import Slot

    Document = dict[str, Any]
    Plan = list[tuple[str, str, Callable[[Any], Any] | None]]


class Shape:
    """The fields of a noun's document, in order, each with its type; the API's schemas are made from the same lists.

    A plain `name` is a field of the record and has its type there; `name_json` of the record is shown as the value that
    it is. `name: type` is not there, or is another thing there: the function of the noun passes it, unless it is a
    property of the record. A new field of a record belongs to the details until it is listed here.

    Args:
        fields: The fields of the document.
        again: Fields that the details repeat as the record has them, because the document shows something else.
        hidden: Fields of the record that nobody needs outside the store.
    """

    def __init__(self, *fields: str, again: tuple[str, ...] = (), hidden: tuple[str, ...] = ()) -> None:
        self.fields = fields
        self._again, self._hidden = again, hidden
        self._plan: Plan | None = None
        self._details: Plan | None = None

    def document(self, record: Record, **passed: Any) -> Document:
        """Return the document of a record; `passed` are the fields that are not simply a field of it."""
        if self._plan is None:
            self._plan = _plan(self.fields, record)
        return {
            name: passed[name]
            if name in passed
            else getattr(record, source)
            if show is None
            else show(getattr(record, source))
            for name, source, show in self._plan
        }

    def details(self, record: Record) -> Document:
        """Return what the document leaves out, for programs that work with the record elsewhere."""
        if self._details is None:
            self._details = _plan(self.rest(type(record)), record)
        return {
            name: getattr(record, source) if show is None else show(getattr(record, source))
            for name, source, show in self._details
        }

    def rest(self, kind: type[Record]) -> tuple[str, ...]:
        """Return the names of the details, in the order of the record."""
        left_out = {field.partition(":")[0] for field in self.fields if field.partition(":")[0] not in self._again}
        left_out.update(self._hidden)
        names = [name.removesuffix("_json") for name in kind._fields]
        return tuple(name for name in names if name not in left_out)


def _plan(fields: tuple[str, ...], record: Record) -> Plan:
    """Return for each field its name, the attribute of the record that has it, and how it is shown."""
    plan: Plan = []
    for field in fields:
        name, _, _ = field.partition(":")
        if f"{name}_json" in record._fields:
            plan.append((name, f"{name}_json", json_text))
            continue
        annotation = record.__annotations__.get(name, "")
        show = _at if annotation.startswith("Instant") else _seconds if annotation.startswith("Duration") else None
        plan.append((name, name, show))
    return plan


JOB = Shape(
    "id", "title", "queue", "kind: str | None", "status", "priority", "payload", "parent", "children", "after",
    "attempts", "max_attempts", "due_at", "created_at", "started_at: Instant | None", "finished_at", "result",
    "error", "worker_id", "run_id: str | None", "note", "scheduled_for",
    again=("worker_id",), hidden=("dependents", "due_wall", "isolated"),
)  # fmt: skip
NEEDED = Shape("id", "title", "status", "result", "error")
CLAIM = Shape(
    "id: int", "job_id", "worker_id", "run_id: str", "token", "claimed_at", "lease_expires_at", "renewed_count",
    "status",
)  # fmt: skip
RUN = Shape(
    "id: str", "job_id", "worker_id", "token", "attempt", "status: str", "verb", "reason", "error", "note",
    "claimed_at", "ended_at", "renewed_count", "transcript_path", "stderr_path",
)  # fmt: skip
WORKER = Shape(
    "id", "name", "hostname", "pid", "status", "registered_at", "last_heartbeat_at", "heartbeat_interval",
    "current_job", "slot", "version", "heartbeat_count", "success_count", "error_count", "last_error_at",
    "last_error_message", "metadata",
    again=("status",),
)  # fmt: skip
CERTIFICATE = Shape("died_at", "reason", "text", "exit_code", "signal", "sent_by", "job_id: int | None")
DEATH = Shape(*CERTIFICATE.fields, "worker_id: str", "slot", "began_at", "usage", "last_frame", "stderr_tail")
QUEUE = Shape(
    "name", "paused: bool", "paused_at", "paused_by", "pause_reason", "max_depth", "rate", "concurrency", "per_key",
    "breaker", "failures", "fence", "counts: dict[str, int]", "oldest_ready_at: Instant | None",
)  # fmt: skip
SOURCE = Shape(
    "name", "queue", "task", "every", "low", "batch", "repeats", "counts: dict[str, int]", "added_count",
    "success_count", "error_count", "last_success_at", "last_success_worker", "last_error_at", "last_error_message",
    "last_error_worker", "repeated_count", "last_repeated_key", "filler", "filler_status: str | None", "fill_count",
    "last_fill_at", "last_fill_error", "next_fill_at: Instant | None",
)  # fmt: skip
SCHEDULE = Shape(
    "name", "cron", "timezone", "missed", "queue", "kind: str | None", "payload", "priority", "max_attempts",
    "timeout", "declared: bool", "paused: bool", "paused_at", "pause_reason", "next_at", "last_at", "fired_at",
    "fired_count", "last_job", "last_status", "error",
)  # fmt: skip
SLOT = Shape(
    "name", "queue: str | None", "crew", "host: str | None", "host_id: str", "wanted", "status", "health",
    "worker_id: str | None", "restarts: int", "lifetime_restarts: int", "starts_in: float | None",
    "failure_reason: str | None",
)  # fmt: skip
ORCHESTRATOR = Shape(
    "id", "status", "crew", "hostname", "host_id: str", "pid", "version", "started_at", "last_reconcile_at",
)  # fmt: skip
TOKEN = Shape("id", "name", "scopes", "created_by", "created_at", "last_used_at", "revoked_at")


def job(job: Job) -> Document:
    """A job. Its holder is shown while it is held and once it is over, never while it waits again."""
    held = job.token is not None and job.status in (jobs.ACTIVE, *jobs.FINAL)
    return JOB.document(
        job,
        kind=job.kind or None,
        started_at=_at(job.claimed_at) if held else None,
        worker_id=job.worker_id if held else None,
        run_id=run_id(job.token) if held and job.token is not None else None,
    )


def job_details(job: Job) -> Document:
    """What a job's document leaves out, for programs that work with its record elsewhere."""
    return JOB.details(job)


def needed(job: Needed) -> Document:
    """A job that another waited for."""
    return NEEDED.document(job)


def claim(claim: Claim) -> Document:
    """A claim; its id is its token."""
    return CLAIM.document(claim, id=claim.token)


def run(run: Run) -> Document:
    """What one claim did."""
    return RUN.document(run)


def worker(worker: Worker, status: str) -> Document:
    """A worker; `status` is its state as people see it."""
    return WORKER.document(worker, status=status, metadata=json_text(worker.metadata_json or "{}"))


def worker_details(worker: Worker) -> Document:
    """What a worker's document leaves out, for programs that work with its record elsewhere."""
    return WORKER.details(worker)


def certificate(certificate: Certificate) -> Document:
    """How a worker died."""
    return CERTIFICATE.document(certificate, job_id=certificate.job)


def death(worker_id: str, certificate: Certificate) -> Document:
    """How a worker died, with its last frame and output."""
    return DEATH.document(certificate, job_id=certificate.job, worker_id=worker_id)


def queue(status: QueueStatus) -> Document:
    """A queue with its limits and its counts by state."""
    return QUEUE.document(
        status.queue,
        paused=status.paused_by is not None,
        paused_by=status.paused_by,
        counts=status.counts,
        oldest_ready_at=_at(status.oldest_ready_at),
    )


def source(status: SourceStatus) -> Document:
    """A source with its progress; `filler` is the internal job that looks for work."""
    return SOURCE.document(
        status.source,
        counts=status.counts,
        filler_status=status.filler_status,
        next_fill_at=_at(status.next_fill_at),
    )


def schedule(schedule: Schedule) -> Document:
    """A schedule; times are those of the wall clock, in UTC."""
    is_paused = schedule.paused_at is not None
    return SCHEDULE.document(
        schedule,
        kind=schedule.kind or None,
        declared=bool(schedule.declared),
        paused=is_paused,
        next_at=None if is_paused else _at(schedule.next_at),
    )


def reconciled(reconciled: Reconciled) -> Document:
    """What reconcile found and repaired."""
    return {name: getattr(reconciled, name) for name in reconciled._fields}


def slot(slot: Slot, now: Instant, hosts: Mapping[str, str], policy: RestartPolicy) -> Document:
    """A slot with its restarts, those that still count and all; `hosts` are the names of hosts by their ids."""
    from rota.core.slot import HTTP

    history = slot.history
    return SLOT.document(
        slot,
        queue=None if slot.queue == HTTP else slot.queue,
        host=hosts.get(slot.host),
        host_id=slot.host,
        worker_id=slot.worker,
        restarts=len(policy.within(history.restarts, now)),
        lifetime_restarts=history.lifetime,
        starts_in=None if slot.start_at is None else max(0.0, (slot.start_at - now) / SECOND),
        failure_reason=history.failure_reason,
    )


def crew(store: Store, pid: int | None) -> Document:
    """The orchestrator here, if process `pid` is one, with all live ones, all slots and the settings in force."""
    from rota.core.slot import HTTP
    from rota.process.host import host_id

    live, slots, now = store.orchestrators.live(), store.slots.all(), store.now()
    hosts = store.orchestrators.hosts()
    own = next((one for one in live if (one.pid, one.host) == (pid, host_id())), None)
    pools: dict[str, int] = {}
    for one in slots:
        if one.wanted and one.queue != HTTP:
            pools[one.queue] = pools.get(one.queue, 0) + 1
    return {
        "status": own.status if own else "stopped",
        "pid": pid,
        "host": own.hostname if own else None,
        "started_at": _at(own.started_at) if own else None,
        "last_reconcile_at": _at(own.last_reconcile_at) if own else None,
        "pools": pools,
        "slots": [slot(one, now, hosts, store.settings.restarts) for one in slots],
        "orchestrators": [orchestrator(one, now) for one in live],
        "settings": settings(store.settings),
    }


def settings(settings: Settings) -> Document:
    """The settings in force: durations as seconds, no password."""
    from rota.settings import is_duration

    shown = {name: getattr(settings, name) for name in settings._fields}
    shown["db"], shown["tracking"] = _without_password(settings.db), _without_password(settings.tracking)
    shown["pools"] = dict(settings.pools)
    # Arguments may hold a secret.
    shown["programs"] = {queue: text.split()[0] for queue, text in settings.programs}
    return {name: value / SECOND if is_duration(name) else value for name, value in shown.items()}


def orchestrator(live: Live, now: Instant) -> Document:
    """An orchestrator that is not gone."""
    from rota.core.orchestrator import KILLED, shown
    from rota.process.host import host_id, process_start

    is_killed = live.host == host_id() and process_start(live.pid) is None
    status = KILLED if is_killed else shown(live.status, live.lease_expires_at, now)
    return ORCHESTRATOR.document(live, status=status, host_id=live.host)


def token(token: AccessToken) -> Document:
    """An access token, without its secret."""
    return TOKEN.document(token, scopes=sorted(token.scopes))


def _without_password(url: str | None) -> str | None:
    """The URL of a database as it may be shown."""
    scheme, separator, rest = (url or "").partition("://")
    if not separator:
        return url
    place, mark, query = rest.partition("?")
    user, at, host = place.rpartition("@")
    # The user part of an API's address is an access token.
    if scheme in ("http", "https"):
        user = at = ""
    kept = "&".join(part for part in query.split("&") if not part.startswith("password="))
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{mark if kept else ''}{kept}"


def _at(instant: Instant | None) -> str | None:
    return None if instant is None else format_instant(instant)


def _seconds(duration: Duration | None) -> float | None:
    if duration is None:
        return None
    return duration / SECOND if duration % SECOND else duration // SECOND


def json_text(text: str | None) -> str | None:
    """JSON text as it stands; what is in the store and no reader of JSON takes, as the text that it is."""
    return Raw(text) if text is not None and is_sound(text) else text
