"""The JSON shapes that every program meets, on the command line as over HTTP: a record in, a document out.

Field names and their order are a contract. Instants are ISO 8601 in UTC with `Z`, durations seconds.
"""

from __future__ import annotations

from rota.core import job as jobs
from rota.core.ids import run_id
from rota.core.jsontext import Raw, is_sound
from rota.core.queue import ALL
from rota.core.times import MILLISECOND, SECOND, format_instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rota.core.access import AccessToken
    from rota.core.claim import Claim, Run
    from rota.core.job import Job, Needed
    from rota.core.restart import RestartPolicy
    from rota.core.schedule import Schedule
    from rota.core.times import Duration, Instant
    from rota.core.worker import Worker
    from rota.settings import Settings
    from rota.store.events import Event
    from rota.store.maintenance.reconcile import Reconciled
    from rota.store.queues import QueueStatus
    from rota.store.sources import SourceStatus
    from rota.store.store import Store
    from rota.store.workers.crews import Live
    from rota.store.workers.registration import Certificate
    from rota.store.workers.slots import Slot

    Document = dict[str, Any]
    Fact = list[Any]


def job(job: Job) -> Document:
    """A job. Its holder is told while it is held and once it is over, never for one that waits again."""
    held = job.token is not None and job.status in (jobs.ACTIVE, *jobs.FINAL)
    return {
        "id": job.id,
        "title": job.title,
        "queue": job.queue,
        "kind": job.kind or None,
        "status": job.status,
        "priority": job.priority,
        "payload": json_text(job.payload_json),
        "parent": job.parent,
        "children": job.children,
        "after": job.after,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "due_at": _at(job.due_at),
        "created_at": _at(job.created_at),
        "started_at": _at(job.claimed_at) if held else None,
        "finished_at": _at(job.finished_at),
        "result": json_text(job.result_json),
        "error": job.error,
        "worker_id": job.worker_id if held else None,
        "run_id": run_id(job.token) if held and job.token is not None else None,
        "note": job.note,
        "scheduled_for": _at(job.scheduled_for),
    }


def job_details(job: Job) -> Document:
    """What a job's document leaves out, for who works with its record elsewhere."""
    return {
        "blocked_on": job.blocked_on,
        "key": job.key,
        "limit_key": job.limit_key,
        "timeout": _seconds(job.timeout),
        "generation": job.generation,
        "deaths": job.deaths,
        "lapses": job.lapses,
        "claimed_at": _at(job.claimed_at),
        "token": job.token,
        "worker_id": job.worker_id,
        "orchestrator": job.orchestrator,
        "lease": _seconds(job.lease),
        "lease_expires_at": _at(job.lease_expires_at),
        "renewed_count": job.renewed_count,
        "checkpoint": json_text(job.checkpoint_json),
        "source": job.source,
        "transcript_path": job.transcript_path,
        "stderr_path": job.stderr_path,
        "trace": job.trace,
    }


def needed(job: Needed) -> Document:
    """A job that another waited for."""
    return {
        "id": job.id,
        "title": job.title,
        "status": job.status,
        "result": json_text(job.result_json),
        "error": job.error,
    }


def claim(claim: Claim) -> Document:
    """A claim; its id is its token."""
    return {
        "id": claim.token,
        "job_id": claim.job_id,
        "worker_id": claim.worker_id,
        "run_id": claim.run_id,
        "token": claim.token,
        "claimed_at": _at(claim.claimed_at),
        "lease_expires_at": _at(claim.lease_expires_at),
        "renewed_count": claim.renewed_count,
        "status": claim.status,
    }


def run(run: Run) -> Document:
    """What one claim did."""
    return {
        "id": run.id,
        "job_id": run.job_id,
        "worker_id": run.worker_id,
        "token": run.token,
        "attempt": run.attempt,
        "status": run.status,
        "verb": run.verb,
        "reason": run.reason,
        "error": run.error,
        "note": run.note,
        "claimed_at": _at(run.claimed_at),
        "ended_at": _at(run.ended_at),
        "renewed_count": run.renewed_count,
        "transcript_path": run.transcript_path,
        "stderr_path": run.stderr_path,
    }


def worker(worker: Worker, status: str) -> Document:
    """A worker; `status` is its state as people see it."""
    return {
        "id": worker.id,
        "name": worker.name,
        "hostname": worker.hostname,
        "pid": worker.pid,
        "status": status,
        "registered_at": _at(worker.registered_at),
        "last_heartbeat_at": _at(worker.last_heartbeat_at),
        "heartbeat_interval": _seconds(worker.heartbeat_interval),
        "current_job": worker.current_job,
        "slot": worker.slot,
        "version": worker.version,
        "heartbeat_count": worker.heartbeat_count,
        "success_count": worker.success_count,
        "error_count": worker.error_count,
        "last_error_at": _at(worker.last_error_at),
        "last_error_message": worker.last_error_message,
        "metadata": json_text(worker.metadata_json or "{}"),
    }


def worker_details(worker: Worker) -> Document:
    """What a worker's document leaves out, for who works with its record elsewhere."""
    return {
        "status": worker.status,
        "desired": worker.desired,
        "orchestrator": worker.orchestrator,
        "queue": worker.queue,
        "concurrency": worker.concurrency,
    }


def certificate(certificate: Certificate) -> Document:
    """How a worker died."""
    return {
        "died_at": _at(certificate.died_at),
        "reason": certificate.reason,
        "text": certificate.text,
        "exit_code": certificate.exit_code,
        "signal": certificate.signal,
        "sent_by": certificate.sent_by,
        "job_id": certificate.job,
    }


def death(id: str, found: Certificate) -> Document:
    """How a worker died, with what it said last."""
    return {
        **certificate(found),
        "worker_id": id,
        "slot": found.slot,
        "began_at": _at(found.began_at),
        "usage": json_text(found.usage_json),
        "last_frame": found.last_frame,
        "stderr_tail": found.stderr_tail,
    }


def queue(status: QueueStatus) -> Document:
    """A queue with its limits and its counts by state."""
    limits = status.queue
    return {
        "name": limits.name,
        "paused": status.paused_by is not None,
        "paused_at": _at(limits.paused_at),
        "paused_by": status.paused_by,
        "pause_reason": limits.pause_reason,
        "max_depth": limits.max_depth,
        "rate": limits.rate,
        "concurrency": limits.concurrency,
        "per_key": limits.per_key,
        "breaker": limits.breaker,
        "failures": limits.failures,
        "fence": limits.fence,
        "counts": status.counts,
        "oldest_ready_at": _at(status.oldest_ready_at),
    }


def source(status: SourceStatus) -> Document:
    """A source with its progress; `filler` is the internal job that looks for work."""
    found = status.source
    return {
        "name": found.name,
        "queue": found.queue,
        "task": found.task,
        "every": _seconds(found.every),
        "low": found.low,
        "batch": found.batch,
        "repeats": found.repeats,
        "counts": status.counts,
        "added_count": found.added_count,
        "success_count": found.success_count,
        "error_count": found.error_count,
        "last_success_at": _at(found.last_success_at),
        "last_success_worker": found.last_success_worker,
        "last_error_at": _at(found.last_error_at),
        "last_error_message": found.last_error_message,
        "last_error_worker": found.last_error_worker,
        "repeated_count": found.repeated_count,
        "last_repeated_key": found.last_repeated_key,
        "filler": found.filler,
        "filler_status": status.filler_status,
        "fill_count": found.fill_count,
        "last_fill_at": _at(found.last_fill_at),
        "last_fill_error": found.last_fill_error,
        "next_fill_at": _at(status.next_fill_at),
    }


def schedule(found: Schedule) -> Document:
    """A schedule; times are those of the wall clock, in UTC."""
    return {
        "name": found.name,
        "cron": found.cron,
        "timezone": found.timezone,
        "missed": found.missed,
        "queue": found.queue,
        "kind": found.kind or None,
        "payload": json_text(found.payload_json),
        "priority": found.priority,
        "max_attempts": found.max_attempts,
        "timeout": _seconds(found.timeout),
        "declared": bool(found.declared),
        "paused": found.paused_at is not None,
        "paused_at": _at(found.paused_at),
        "pause_reason": found.pause_reason,
        "next_at": None if found.paused_at is not None else _at(found.next_at),
        "last_at": _at(found.last_at),
        "fired_at": _at(found.fired_at),
        "fired_count": found.fired_count,
        "last_job": found.last_job,
        "last_status": found.last_status,
        "error": found.error,
    }


def reconciled(found: Reconciled) -> Document:
    """What reconcile found and mended."""
    return {name: getattr(found, name) for name in found._fields}


def slot(slot: Slot, now: Instant, hosts: Mapping[str, str], policy: RestartPolicy) -> Document:
    """A slot with its restarts, those that still count and all; `hosts` are the names of hosts by their ids."""
    from rota.core.slot import HTTP

    history = slot.history
    return {
        "name": slot.name,
        "queue": None if slot.queue == HTTP else slot.queue,
        "crew": slot.crew,
        "host": hosts.get(slot.host),
        "host_id": slot.host,
        "wanted": slot.wanted,
        "status": slot.status,
        "health": slot.health,
        "worker_id": slot.worker,
        "restarts": len(policy.within(history.restarts, now)),
        "lifetime_restarts": history.lifetime,
        "starts_in": None if slot.start_at is None else max(0.0, (slot.start_at - now) / SECOND),
        "failure_reason": history.failure_reason,
    }


def crew(store: Store, pid: int | None) -> Document:
    """The orchestrator here, if process `pid` is one, with all that live, all slots and the settings in force."""
    from rota.core.slot import HTTP
    from rota.process.host import host_id

    live, slots, now = store.orchestrators.live(), store.slots.all(), store.now()
    hosts = store.orchestrators.hosts()
    here = next((each for each in live if (each.pid, each.host) == (pid, host_id())), None)
    pools: dict[str, int] = {}
    for each in slots:
        if each.wanted and each.queue != HTTP:
            pools[each.queue] = pools.get(each.queue, 0) + 1
    return {
        "status": here.status if here else "stopped",
        "pid": pid,
        "host": here.hostname if here else None,
        "started_at": _at(here.started_at) if here else None,
        "last_reconcile_at": _at(here.last_reconcile_at) if here else None,
        "pools": pools,
        "slots": [slot(each, now, hosts, store.settings.restarts) for each in slots],
        "orchestrators": [orchestrator(each, now) for each in live],
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

    is_gone = live.host == host_id() and process_start(live.pid) is None
    return {
        "id": live.id,
        "status": KILLED if is_gone else shown(live.status, live.lease_expires_at, now),
        "crew": live.crew,
        "hostname": live.hostname,
        "host_id": live.host,
        "pid": live.pid,
        "version": live.version,
        "started_at": _at(live.started_at),
        "last_reconcile_at": _at(live.last_reconcile_at),
    }


def token(token: AccessToken) -> Document:
    """An access token, without its secret."""
    return {
        "id": token.id,
        "name": token.name,
        "scopes": sorted(token.scopes),
        "created_by": token.created_by,
        "created_at": _at(token.created_at),
        "last_used_at": _at(token.last_used_at),
        "revoked_at": _at(token.revoked_at),
    }


def told(event: Event, wants: Callable[[str], bool]) -> list[tuple[Fact, str]]:
    """The facts of an event that are wanted by their topics, each under the topic that was."""
    wanted = []
    for fact in event.facts:
        for topic in topics(fact):
            if wants(topic):
                wanted.append((fact, topic))
                break
    return wanted


def topics(fact: Fact) -> tuple[str, ...]:
    """The topics that a fact belongs to, the narrowest first."""
    noun, _, which, *rest = fact
    if noun == "job":
        return (f"queue:{which}:jobs", "queue:jobs") if len(rest) > 1 else ("queue:jobs",)
    if noun == "queue":
        return ("queue:status",) if which == ALL else (f"queue:{which}:status", "queue:status")
    if noun == "worker":
        slot = rest[0].get("slot")
        return (f"{slot}:status" if slot else f"worker:-:{which}:status",)
    if noun in ("source", "schedule"):
        return (f"{noun}:{which}:status",)
    return ("system:health",)


def event(event: Event, fact: Fact, topic: str) -> list[Document]:
    """A fact as subscribers get it: one document, or one for each job that it speaks of."""
    noun, verb, which, *rest = fact
    bodies: list[Document]
    if noun == "job" and len(rest) > 1:
        was, status, ids, *more = rest
        facts = more[0] if more else {}
        bodies = [{"id": id, "queue": which, "verb": verb, "was": was, "status": status, **facts} for id in ids]
    elif noun == "job":
        bodies = [{"id": int(which), "verb": verb, **rest[0]}]
    elif noun == "queue":
        bodies = [{"queue_type": None if which == ALL else which, "verb": verb, **rest[0]}]
    else:
        bodies = [{"id": which, "verb": verb, **rest[0]}]
    name = noun if noun in ("job", "queue", "worker", "source", "schedule") else "health"
    head = {
        "id": event.cursor,
        "topic": topic,
        "type": f"{name}_update",
        "timestamp": event.at // MILLISECOND,
        "at": _at(event.at),
        "actor": event.actor,
    }
    return [{**head, name: body} for body in bodies]


def _without_password(url: str | None) -> str | None:
    """The URL of a database as it may be shown."""
    scheme, found, rest = (url or "").partition("://")
    if not found:
        return url
    place, asked, query = rest.partition("?")
    user, at, host = place.rpartition("@")
    if scheme in ("http", "https"):  # there the user's part is an access token
        user = at = ""
    kept = "&".join(part for part in query.split("&") if not part.startswith("password="))
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{asked if kept else ''}{kept}"


def _at(instant: Instant | None) -> str | None:
    return None if instant is None else format_instant(instant)


def _seconds(duration: Duration | None) -> float | None:
    if duration is None:
        return None
    return duration / SECOND if duration % SECOND else duration // SECOND


def json_text(text: str | None) -> str | None:
    """JSON text as it stands; what is in the store and no reader of JSON takes, as the text that it is."""
    return Raw(text) if text is not None and is_sound(text) else text
