"""The figures of a storm: how long each kind of fault took to be seen and mended, and what was done how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core import queue as queues
from rota.core.death import OPERATOR
from rota.core.record import Record
from rota.core.times import MILLISECOND, SECOND
from rota.core.worker import DEAD
from rota.lab.chaos.expected import planned_starts
from rota.lab.chaos.plan import FATAL, FREEZE_CREW, KILL_API, KILL_BUSY, KILL_ORCHESTRATOR, POISON, STORE_FAULTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.core.times import Duration, Instant
    from rota.lab.chaos.ledger_reader import Execution, Injected, Life
    from rota.lab.chaos.snapshot import Snapshot


class Spread(Record):
    """How long something took, in milliseconds; `each` in order, so that storms can be put together."""

    each: tuple[float, ...]
    p50: float
    p99: float
    most: float


class Mending(Record):
    """What followed a kind of fault: it was seen, its job ran again, its place was filled again."""

    seen: Spread | None
    rerun: Spread | None
    refilled: Spread | None


def spread(durations: Sequence[Duration]) -> Spread | None:
    """None when nothing was measured."""
    if not durations:
        return None
    ordered = sorted(round(each / MILLISECOND, 1) for each in durations)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    return Spread(tuple(ordered), at(0.5), at(0.99), ordered[-1])


def mendings(snapshot: Snapshot) -> dict[str, Mending]:
    """For each kind of fault that ends or delays something, how it was mended; orphans and loops apart."""
    found: dict[str, Mending] = {}
    for kind in FATAL:
        hit: dict[str, list[tuple[Life, Injected]]] = {}
        for life, fault in snapshot.ledger.lives_of(kind):
            hit.setdefault(_name(snapshot, life, fault), []).append((life, fault))
        found.update({name: _mending(snapshot, lives) for name, lives in sorted(hit.items())})
    if kills := [kill for kill in snapshot.ledger.faults_of(KILL_ORCHESTRATOR) if not _was_frozen(snapshot, kill)]:
        back = [_first_up(snapshot, kill) - kill.at for kill in kills if _first_up(snapshot, kill)]
        working = [_first_start(snapshot, kill) - kill.at for kill in kills if _first_start(snapshot, kill)]
        found[KILL_ORCHESTRATOR] = Mending(None, spread(working), spread(back))
    if frozen := snapshot.ledger.faults_of(FREEZE_CREW):
        lapses = [_lapse(snapshot, fault) - fault.store_at for fault in frozen if _lapse(snapshot, fault)]
        found[FREEZE_CREW] = _mending(snapshot, snapshot.ledger.lives_of(FREEZE_CREW)).but(seen=spread(lapses))
    for kind in (KILL_API, *STORE_FAULTS):
        claimed = [_first_claim(snapshot, fault) - fault.store_at for fault in snapshot.ledger.faults_of(kind)]
        if claimed:
            found[kind] = Mending(None, spread([each for each in claimed if each > 0]), None)
    return found


def _name(snapshot: Snapshot, life: Life, fault: Injected) -> str:
    """What a fault is called, by whom it hit. With another idle, a job that was cut short has to wait for nobody."""
    if not life.is_supervised:
        return f"{fault.kind} (loop)"
    if any(life.up_at < each.at < fault.at for each in snapshot.ledger.of_crew(snapshot.crews.get(life.slot))):
        return f"{fault.kind} (orphan)"
    beside = [each for each in snapshot.ledger.lives if each.queue == life.queue and each is not life]
    idle = fault.kind == KILL_BUSY and any(_is_idle(snapshot, each, fault.at) for each in beside)
    return f"{fault.kind}, another idle" if idle and not _was_paused(snapshot, life, fault) else fault.kind


def _was_paused(snapshot: Snapshot, life: Life, fault: Injected) -> bool:
    """Whether the queue was paused at a moment between a fault and the next start of the job that was cut short."""
    until = fault.store_at + max(0, _next_start(snapshot.ledger.of_job(), life) - fault.at)
    paused = False
    for event in snapshot.events:
        if event.at > until or (paused and event.at >= fault.store_at):
            break
        for fact in event.facts:
            if fact[0] == "queue" and fact[1] in ("pause", "resume") and fact[2] in (life.queue, queues.ALL):
                paused = fact[1] == "pause"
    return paused


def _is_idle(snapshot: Snapshot, life: Life, at: Instant) -> bool:
    """Whether a worker was there at that moment, well, and had nothing in hand."""
    lives = life.up_at < at and (life.gone_at is None or life.gone_at > at)
    if not lives or any(fault.at <= at for fault in life.faults):
        return False
    return not any(
        each.worker == life.worker and each.started_at <= at and (each.over_at is None or each.over_at > at)
        for each in snapshot.ledger.executions
    )


def _mending(snapshot: Snapshot, hit: Sequence[tuple[Life, Injected]]) -> Mending:
    again, died = snapshot.ledger.of_job(), snapshot.certificates
    seen = [died[life.worker].died_at - fault.store_at for life, fault in hit if life.worker in died]
    rerun = [_next_start(again, life) - fault.at for life, fault in hit if _next_start(again, life)]
    refilled = [
        _next_life(snapshot, life) - fault.at
        for life, fault in hit
        if life.is_supervised and _next_life(snapshot, life)
    ]
    return Mending(spread(seen), spread(rerun), spread(refilled))


def false_deaths(snapshot: Snapshot) -> list[str]:
    """Workers that died though nothing was done to them that ends a worker."""
    lives = {life.worker: life for life in snapshot.ledger.lives}
    kinds, found = snapshot.kinds, []
    for id, certificate in snapshot.certificates.items():
        life, born, slot = lives.get(id), snapshot.workers[id].registered_at, snapshot.workers[id].slot
        if certificate.reason == OPERATOR or (snapshot.workers[id].status != DEAD and slot is not None):
            continue
        crew = snapshot.ledger.of_crew(snapshot.crews.get(slot)) if slot is not None else []
        # What it began may have been under way when its orchestrator was killed, and have come to its end after.
        orphaned = any(born - SECOND <= fault.store_at <= certificate.died_at for fault in crew)
        # An orphan goes once it is through, not before; what was given up with its crew is ended.
        robbed = life is not None and bool(life.ended_with) and not any(_stood_still(life, fault) for fault in crew)
        if (orphaned and not robbed) or (life is not None and was_ended(life, kinds)):
            continue
        found.append(f"{id} ({certificate.reason}: {certificate.text})")
    return found


def _stood_still(life: Life, fault: Injected) -> bool:
    """Whether its crew was stopped while it lived."""
    there = life.up_at <= fault.at + fault.lasts and (life.gone_at is None or fault.at <= life.gone_at)
    return fault.kind == FREEZE_CREW and there


def started_too_often(snapshot: Snapshot) -> int:
    """Jobs whose handler began more often than planned."""
    kinds = snapshot.kinds
    return sum(len(found) > planned_starts(kinds.get(job, "")) for job, found in snapshot.ledger.of_job().items())


def run_through_twice(snapshot: Snapshot) -> int:
    """Jobs whose handler came to a good end more than once; only one of these was committed."""
    return sum(sum(each.outcome == "done" for each in found) > 1 for found in snapshot.ledger.of_job().values())


def throughput(snapshot: Snapshot) -> float:
    """Jobs that came to a good end, a second, from the first start to the last end."""
    over = {each.job: each.over_at for each in snapshot.ledger.executions if each.outcome == "done" and each.over_at}
    if len(over) < 2:
        return 0.0
    took = max(over.values()) - min(each.started_at for each in snapshot.ledger.executions)
    return round(len(over) * SECOND / took, 1)


def turnaround(snapshot: Snapshot) -> Spread | None:
    """How long jobs took from when they could first begin until they were done, whatever befell them."""
    ready: dict[int, Instant] = {}
    took: list[Duration] = []
    for event in snapshot.events:
        for fact in event.facts:
            if fact[0] != "job" or len(fact) < 6:
                continue
            for id in fact[5]:
                if fact[4] == jobs.READY:
                    ready.setdefault(id, event.at)
                if fact[1] == jobs.FINISH and id in ready:
                    took.append(event.at - ready[id])
    return spread(took)


def was_ended(life: Life, kinds: Mapping[int, str]) -> bool:
    """Whether something was done to a worker that ends it."""
    poisoned = any(kinds.get(each.job) == POISON for each in life.ended_with)
    return poisoned or any(fault.kind in (*FATAL, FREEZE_CREW) for fault in life.faults)


def _next_start(again: dict[int, list[Execution]], life: Life) -> Instant:
    """When the job that a life ended with began again; 0 when it did not, or there was none."""
    cut = next(iter(life.ended_with), None)
    if cut is None:
        return 0
    return next((each.started_at for each in again[cut.job] if each.token > cut.token), 0)


def _next_life(snapshot: Snapshot, life: Life) -> Instant:
    """When a life's slot was filled again; 0 when it was not."""
    return next((each.up_at for each in snapshot.ledger.lives if each.slot == life.slot and each.up_at > life.up_at), 0)


def _was_frozen(snapshot: Snapshot, kill: Injected) -> bool:
    """Whether a crew was stopped before it had come back from the kill of its orchestrator."""
    back = _first_start(snapshot, kill) or kill.at
    frozen = [fault for fault in snapshot.ledger.faults_of(FREEZE_CREW) if fault.crew == kill.crew]
    return any(kill.at <= fault.at <= back for fault in frozen)


def _first_up(snapshot: Snapshot, kill: Injected) -> Instant:
    return next((life.up_at for life in _lives_after(snapshot, kill)), 0)


def _first_start(snapshot: Snapshot, kill: Injected) -> Instant:
    """When a worker that came after an orchestrator's death first began a job; 0 when none did."""
    new = {life.worker for life in _lives_after(snapshot, kill)}
    return next((each.started_at for each in snapshot.ledger.executions if each.worker in new), 0)


def _lapse(snapshot: Snapshot, fault: Injected) -> Instant:
    """When an orchestrator was next given up; 0 when none was."""
    lapses = (
        event.at for event in snapshot.events if any(fact[:2] == ["orchestrator", "lapse"] for fact in event.facts)
    )
    return next((at for at in lapses if at > fault.store_at), 0)


def _first_claim(snapshot: Snapshot, fault: Injected) -> Instant:
    """When somebody who was hit next claimed something, by the store; 0 when nobody did."""
    behind = {queue for crew in snapshot.plan.options.behind_api for queue in snapshot.plan.options.crews[crew]}
    for event in snapshot.events:
        if event.at > fault.store_at:
            queues = {fact[2] for fact in event.facts if fact[:2] == ["job", jobs.CLAIM]}
            if queues & behind if fault.kind == KILL_API else queues:
                return event.at
    return 0


def _lives_after(snapshot: Snapshot, kill: Injected) -> list[Life]:
    """The lives in the crew of a killed orchestrator that began after it."""
    crews = snapshot.crews
    return [life for life in snapshot.ledger.lives if life.up_at > kill.at and crews.get(life.slot) == kill.crew]
