"""Explain in one sentence why a job is not running or a slot is empty."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core import queue as queues
from rota.core import slot as slots
from rota.core.claim import is_overlong
from rota.core.queue import allow
from rota.core.source import is_internal
from rota.core.times import format_duration, format_instant
from rota.store.engine.rows import queues_by_name, scalar
from rota.store.jobs import unknown_kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.job import Job
    from rota.core.queue import Queue
    from rota.core.times import Instant
    from rota.store.store import Store
    from rota.store.workers.slots import Slot

RUNS_COMPARED = 1000


def why(store: Store, job: Job) -> str:
    if is_internal(job.queue) and job.status not in jobs.FINAL:
        due = f", and is due at {_at(job.due_at)}" if job.status == jobs.SCHEDULED else ""
        return f"Job {job.id} is rota's own: it fills a queue from source {job.source}; it is {job.status}{due}."
    match job.status:
        case jobs.DONE:
            return f"Job {job.id} is done: {job.worker_id or 'a person'} finished it at {_at(job.finished_at)}."
        case jobs.CANCELLED:
            return f"Job {job.id} will not run: it was {job.error or 'cancelled'}."
        case jobs.FAILED:
            return _failed(job)
        case jobs.ACTIVE:
            held = f"{job.worker_id} holds it since {_at(job.claimed_at)}{_until(job)}"
            return f"Job {job.id} is running: {held}{_attention(store, job)}."
        case jobs.SCHEDULED:
            failure = f"attempt {job.attempts} of {job.max_attempts}" if job.attempts else "one that was not charged"
            retry = f", after {failure} failed: {job.error}" if job.error else ""
            return f"Job {job.id} waits for its time: it is due at {_at(job.due_at)}{retry}."
        case jobs.BLOCKED:
            return _blocked(store, job)
        case _:
            return _ready(store, job)


def why_slot(store: Store, slot: Slot) -> str:
    """Explain why a slot has no worker, or what its worker does."""
    name = f"Slot {slot.name}"
    runs = any((each.crew, each.host) == (slot.crew, slot.host) for each in store.orchestrators.live())
    if slot.history.failed_at is not None:
        when = f"since {_at(slot.history.failed_at)}"
        return f"{name} has failed {when}: it {slot.history.failure_reason}; `rota reset {slot.name}` starts it again."
    if slot.status == slots.STOPPING and runs:
        return f"{name} is stopping: {slot.worker} was asked to leave, and finishes what it has in hand."
    if not slot.wanted:
        if slot.queue == slots.HTTP:
            return f"{name} is not wanted: the orchestrator was started with --no-http."
        return f"{name} is not wanted: the crew was scaled down; `rota scale {slot.queue}=N` brings it back."
    if not runs:
        return f"{name} is empty because no orchestrator of crew {slot.crew} is running."
    match slot.status:
        case slots.BACKOFF:
            waits = slot.queue != slots.HTTP and not store.queues.is_open(slot.queue)
            paused = f", once queue {slot.queue} is resumed" if waits else ""
            wait = format_duration(max(0, (slot.start_at or 0) - store.now()))
            died = len(slot.history.restarts)
            return f"{name} waits: its worker died, the {_nth(died)} time of late; the next starts in {wait}{paused}."
        case slots.STARTING:
            return f"{name} is starting: {slot.worker} is not ready yet."
        case slots.UP:
            return _up(store, slot, name)
        case _:
            return f"{name} is {slot.status}: a worker will be started."


def _up(store: Store, slot: Slot, name: str) -> str:
    if slot.queue == slots.HTTP:
        return f"{name} is up: {slot.worker} answers requests."
    worker = store.workers.get(slot.worker) if slot.worker else None
    if worker is not None and worker.current_job is not None:
        return f"{name} is up: {worker.id} runs job {worker.current_job}."
    if not store.queues.is_open(slot.queue):
        return f"{name} is up, and its queue {slot.queue} is paused: {slot.worker} waits."
    return f"{name} is up: {slot.worker} waits for a job."


def _nth(count: int) -> str:
    return f"{count}{'st' if count == 1 else 'nd' if count == 2 else 'rd' if count == 3 else 'th'}"


def _failed(job: Job) -> str:
    if job.error and job.error.startswith(jobs.QUARANTINED):
        return f"Job {job.id} is {job.error}; `rota retry {job.id}` runs it again."
    spent = f"{job.attempts} of {job.max_attempts} attempts"
    return f"Job {job.id} has failed after {spent}: {job.error}; `rota retry {job.id}` runs it again."


def _blocked(store: Store, job: Job) -> str:
    if job.blocked_on == jobs.UNKNOWN_KIND:
        return unknown_kinds.why(store, job)
    if job.blocked_on == jobs.LIMIT:
        limit = f"queue {job.queue} lets {store.queues.get(job.queue).per_key} of key {job.limit_key} run at once"
        return (
            f"Job {job.id} waits for room: {limit}, and they are taken by {_holders(store, job.queue, job.limit_key)}."
        )
    open_ones = store.database.execute("dependency.open_of_job", {"job": job.id})
    over = {jobs.FAILED: "which has failed", jobs.CANCELLED: "which was cancelled"}
    hopeless = " and ".join(f"job {id}, {over[status]}" for id, status in open_ones if status in over)
    if hopeless:
        return f"Job {job.id} waits for {hopeless}: `rota retry` that, or `rota unblock` this."
    waiting = " and ".join(f"job {id} ({status})" for id, status in open_ones[:5])
    more = f" and {len(open_ones) - 5} more" if len(open_ones) > 5 else ""
    return f"Job {job.id} waits for {waiting}{more}."


def _ready(store: Store, job: Job) -> str:
    now = store.now()
    by_name = queues_by_name(store.database.execute("queue.all", {}))
    for queue, name in ((by_name[queues.ALL], "everything"), (by_name[job.queue], f"queue {job.queue}")):
        if queue.paused_at is not None:
            return _paused(job, queue, name)
    queue = by_name[job.queue]
    counts: dict[str, int] = dict(store.database.execute("tally.of_queue", {"queue": job.queue}))
    start = f"Job {job.id} is ready, but"
    match allow(queue, counts.get(jobs.ACTIVE, 0), 1, now).limit:
        case "concurrency":
            holders = _holders(store, job.queue, None)
            return f"{start} queue {job.queue} lets {queue.concurrency} run at once, and they are taken by {holders}."
        case "rate":
            free_in = format_duration(max(0, queue.rate_next_at - now))
            return f"{start} queue {job.queue} starts {queue.rate}: the next in {free_in}."
    able = scalar(store.database.execute("worker.count_live_for", {"queue": job.queue}))
    if not able:
        return f"{start} there is no worker: `rota claim {job.id}` takes it by hand."
    return f"Job {job.id} is ready: the next worker to claim from queue {job.queue} may take it ({able} live)."


def _paused(job: Job, queue: Queue, name: str) -> str:
    by = "its breaker" if queue.paused_by == queues.BREAKER else queue.paused_by
    reason = f" ({queue.pause_reason})" if queue.pause_reason else ""
    return f"Job {job.id} is ready, but {name} is paused by {by} since {_at(queue.paused_at)}{reason}."


def _holders(store: Store, queue: str, limit_key: str | None) -> str:
    held = [job for job in store.jobs.list(jobs.ACTIVE, queue) if limit_key in (None, job.limit_key)]
    return ", ".join(f"{job.worker_id} (job {job.id})" for job in held[:3]) or "jobs that are ready"


def _attention(store: Store, job: Job) -> str:
    age = store.now() - (job.claimed_at or 0)
    taken = [took for (took,) in store.database.execute("claim.taken", {"kind": job.kind, "most": RUNS_COMPARED})]
    if not is_overlong(age, taken):
        return ""
    alike = f"of kind {job.kind}" if job.kind else "without a kind"
    usual = f"others {alike} took {format_duration(max(taken))} at most" if taken else "none of its kind ended"
    return f"; it needs attention: that is {format_duration(age)}, and {usual}: `rota cancel {job.id}` ends it"


def _until(job: Job) -> str:
    return f" until {_at(job.lease_expires_at)} unless it renews" if job.lease_expires_at else ""


def _at(instant: Instant | None) -> str:
    return format_instant(instant or 0)[:19] + "Z"
