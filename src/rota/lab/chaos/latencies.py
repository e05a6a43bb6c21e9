"""The latencies of a storm: how long it took to notice faults and to recover, and how long jobs took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core import queue as queues
from rota.core.event import JobMoved, OrchestratorChanged, QueueChanged
from rota.core.record import Record
from rota.core.times import MILLISECOND, SECOND
from rota.lab.chaos.plan import FATAL, FREEZE_CREW, KILL_API, KILL_BUSY, KILL_ORCHESTRATOR, STORE_FAULTS
from rota.lab.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.times import Duration, Instant
    from rota.lab.chaos.ledger_reader import Execution, Injected, Life
    from rota.lab.chaos.snapshot import Snapshot


class Latency(Record):
    """How long something took, in milliseconds. `each` is sorted and complete, so that storms can be pooled."""

    each: tuple[float, ...]
    p50: float
    p99: float
    most: float


class Recovery(Record):
    """What followed a kind of fault: it was noticed, the job ran again, the slot was filled again."""

    seen: Latency | None
    rerun: Latency | None
    refilled: Latency | None


def latency(durations: Sequence[Duration]) -> Latency | None:
    """Summarise durations; None if there are none."""
    if not durations:
        return None
    ordered = sorted(round(duration / MILLISECOND, 1) for duration in durations)
    return Latency(tuple(ordered), percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1])


def recoveries(snapshot: Snapshot) -> dict[str, Recovery]:
    """Return the recovery from each kind of fault that ends or delays something; orphans and loops count apart."""
    ledger = snapshot.ledger
    by_name: dict[str, Recovery] = {}
    for kind in FATAL:
        hit: dict[str, list[tuple[Life, Injected]]] = {}
        for life, fault in ledger.lives_hit_by(kind):
            hit.setdefault(_name(snapshot, life, fault), []).append((life, fault))
        by_name.update({name: _recovery(snapshot, lives) for name, lives in sorted(hit.items())})
    if kills := [kill for kill in ledger.faults_of(KILL_ORCHESTRATOR) if not _was_frozen(snapshot, kill)]:
        up = [_first_up(snapshot, kill) - kill.at for kill in kills if _first_up(snapshot, kill)]
        started = [_first_start(snapshot, kill) - kill.at for kill in kills if _first_start(snapshot, kill)]
        by_name[KILL_ORCHESTRATOR] = Recovery(None, latency(started), latency(up))
    if freezes := ledger.faults_of(FREEZE_CREW):
        lapses = [_lapse(snapshot, fault) - fault.store_at for fault in freezes if _lapse(snapshot, fault)]
        by_name[FREEZE_CREW] = _recovery(snapshot, ledger.lives_hit_by(FREEZE_CREW)).replace(seen=latency(lapses))
    for kind in (KILL_API, *STORE_FAULTS):
        if faults := ledger.faults_of(kind):
            claims = [_first_claim(snapshot, fault) - fault.store_at for fault in faults]
            by_name[kind] = Recovery(None, latency([duration for duration in claims if duration > 0]), None)
    return by_name


def throughput(snapshot: Snapshot) -> float:
    """Return how many jobs succeeded per second, from the first start to the last end."""
    executions = snapshot.ledger.executions
    ends = {
        execution.job: execution.over_at
        for execution in executions
        if execution.outcome == "done" and execution.over_at
    }
    if len(ends) < 2:
        return 0.0
    took = max(ends.values()) - min(execution.started_at for execution in executions)
    return round(len(ends) * SECOND / took, 1)


def turnaround(snapshot: Snapshot) -> Latency | None:
    """Return how long jobs took from being ready for the first time until they were done, faults included."""
    ready: dict[int, Instant] = {}
    took: list[Duration] = []
    for event in snapshot.events:
        for move in event.of(JobMoved):
            for id in move.ids:
                if move.new == jobs.READY:
                    ready.setdefault(id, event.at)
                if move.verb == jobs.FINISH and id in ready:
                    took.append(event.at - ready[id])
    return latency(took)


def _name(snapshot: Snapshot, life: Life, fault: Injected) -> str:
    """Name a fault by what it hit. If another worker was idle, the job that was cut short need not wait for one."""
    if not life.is_supervised:
        return f"{fault.kind} (loop)"
    crew_faults = snapshot.ledger.faults_of_crew(snapshot.crews.get(life.slot))
    if any(life.up_at < crew_fault.at < fault.at for crew_fault in crew_faults):
        return f"{fault.kind} (orphan)"
    others = [other for other in snapshot.ledger.lives if other.queue == life.queue and other is not life]
    idle = fault.kind == KILL_BUSY and any(_is_idle(snapshot, other, fault.at) for other in others)
    return f"{fault.kind}, another idle" if idle and not _was_paused(snapshot, life, fault) else fault.kind


def _was_paused(snapshot: Snapshot, life: Life, fault: Injected) -> bool:
    """Whether the queue was paused at some moment between a fault and the next start of the job that it cut short."""
    until = fault.store_at + max(0, _next_start(snapshot.ledger.executions_by_job(), life) - fault.at)
    paused = False
    for event in snapshot.events:
        if event.at > until or (paused and event.at >= fault.store_at):
            break
        for fact in event.of(QueueChanged, "pause", "resume"):
            if fact.subject in (life.queue, queues.ALL):
                paused = fact.verb == "pause"
    return paused


def _is_idle(snapshot: Snapshot, life: Life, at: Instant) -> bool:
    """Whether a worker was alive and unharmed at that moment, and ran nothing."""
    alive = life.up_at < at and (life.gone_at is None or life.gone_at > at)
    if not alive or any(fault.at <= at for fault in life.faults):
        return False
    own = (execution for execution in snapshot.ledger.executions if execution.worker == life.worker)
    return not any(
        execution.started_at <= at and (execution.over_at is None or execution.over_at > at) for execution in own
    )


def _recovery(snapshot: Snapshot, hit: Sequence[tuple[Life, Injected]]) -> Recovery:
    executions, certificates = snapshot.ledger.executions_by_job(), snapshot.certificates
    supervised = [(life, fault) for life, fault in hit if life.is_supervised]
    seen = [certificates[life.worker].died_at - fault.store_at for life, fault in hit if life.worker in certificates]
    rerun = [_next_start(executions, life) - fault.at for life, fault in hit if _next_start(executions, life)]
    refilled = [_next_life(snapshot, life) - fault.at for life, fault in supervised if _next_life(snapshot, life)]
    return Recovery(latency(seen), latency(rerun), latency(refilled))


def _next_start(executions: dict[int, list[Execution]], life: Life) -> Instant:
    """When the job that the end of a life cut short began again; 0 if it did not, or if there was none."""
    cut = next(iter(life.ended_with), None)
    if cut is None:
        return 0
    return next((execution.started_at for execution in executions[cut.job] if execution.token > cut.token), 0)


def _next_life(snapshot: Snapshot, life: Life) -> Instant:
    """When a life's slot was filled again; 0 if it was not."""
    in_slot = (other for other in snapshot.ledger.lives if other.slot == life.slot)
    return next((other.up_at for other in in_slot if other.up_at > life.up_at), 0)


def _was_frozen(snapshot: Snapshot, kill: Injected) -> bool:
    """Whether a crew was frozen before it had recovered from the kill of its orchestrator."""
    recovered_at = _first_start(snapshot, kill) or kill.at
    freezes = [fault for fault in snapshot.ledger.faults_of(FREEZE_CREW) if fault.crew == kill.crew]
    return any(kill.at <= fault.at <= recovered_at for fault in freezes)


def _first_up(snapshot: Snapshot, kill: Injected) -> Instant:
    return next((life.up_at for life in _lives_after(snapshot, kill)), 0)


def _first_start(snapshot: Snapshot, kill: Injected) -> Instant:
    """When a worker that came up after the kill of its orchestrator first began a job; 0 if none did."""
    new = {life.worker for life in _lives_after(snapshot, kill)}
    return next((execution.started_at for execution in snapshot.ledger.executions if execution.worker in new), 0)


def _lapse(snapshot: Snapshot, fault: Injected) -> Instant:
    """When the lease of an orchestrator next expired; 0 if none did."""
    for event in snapshot.events:
        if event.at > fault.store_at and event.of(OrchestratorChanged, "lapse"):
            return event.at
    return 0


def _first_claim(snapshot: Snapshot, fault: Injected) -> Instant:
    """When one of the crews that were hit next claimed a job, on the store's clock; 0 if none did."""
    options = snapshot.plan.options
    behind_api = {queue for crew in options.behind_api for queue in options.crews[crew]}
    for event in snapshot.events:
        if event.at > fault.store_at:
            claimed = {claim.queue for claim in event.of(JobMoved, jobs.CLAIM)}
            if claimed & behind_api if fault.kind == KILL_API else claimed:
                return event.at
    return 0


def _lives_after(snapshot: Snapshot, kill: Injected) -> list[Life]:
    """The lives in the crew of a killed orchestrator that began after the kill."""
    crews = snapshot.crews
    return [life for life in snapshot.ledger.lives if life.up_at > kill.at and crews.get(life.slot) == kill.crew]
