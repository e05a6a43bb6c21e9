"""The figures of a storm: how long each kind of fault took to be seen and mended, and what was done how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.chaos.expected import planned_starts
from rota.chaos.plan import FATAL, KILL_ORCHESTRATOR, POISON
from rota.core.death import OPERATOR
from rota.core.record import Record
from rota.core.times import MILLISECOND, SECOND
from rota.core.worker import DEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.chaos.book import Execution, Injected, Life
    from rota.chaos.snapshot import Snapshot
    from rota.core.times import Duration, Instant


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


def mendings(all: Snapshot) -> dict[str, Mending]:
    """For each kind of fault that ends a worker or an orchestrator, how it was mended; orphans and loops apart."""
    kills, crews = all.book.orchestrator_kills, all.crews
    found: dict[str, Mending] = {}
    for kind in FATAL:
        hit: dict[str, list[tuple[Life, Injected]]] = {}
        for life, fault in all.book.lives_of(kind):
            orphan = any(kill.crew == crews.get(life.slot) and life.up_at < kill.at < fault.at for kill in kills)
            name = f"{kind} (loop)" if not life.is_seen else f"{kind} (orphan)" if orphan else kind
            hit.setdefault(name, []).append((life, fault))
        found.update({name: _mending(all, lives) for name, lives in sorted(hit.items())})
    if kills:
        back = [_first_up(all, kill) - kill.at for kill in kills if _first_up(all, kill)]
        working = [_first_start(all, kill) - kill.at for kill in kills if _first_start(all, kill)]
        found[KILL_ORCHESTRATOR] = Mending(None, spread(working), spread(back))
    return found


def _mending(all: Snapshot, hit: Sequence[tuple[Life, Injected]]) -> Mending:
    again, died = all.book.of_job(), all.certificates
    seen = [died[life.worker].died_at - fault.store_at for life, fault in hit if life.worker in died]
    rerun = [_next_start(again, life) - fault.at for life, fault in hit if _next_start(again, life)]
    refilled = [_next_life(all, life) - fault.at for life, fault in hit if life.is_seen and _next_life(all, life)]
    return Mending(spread(seen), spread(rerun), spread(refilled))


def false_deaths(all: Snapshot) -> list[str]:
    """Workers that died though nothing was done to them that ends a worker."""
    lives = {life.worker: life for life in all.book.lives}
    kinds, found = all.kinds, []
    for id, certificate in all.certificates.items():
        life, born, slot = lives.get(id), all.workers[id].registered_at, all.workers[id].slot
        if certificate.reason == OPERATOR or (all.workers[id].status != DEAD and slot is not None):
            continue
        kills = [kill for kill in all.book.orchestrator_kills if slot is not None and kill.crew == all.crews.get(slot)]
        # What it began may have been under way when its orchestrator was killed, and have come to its end after.
        orphaned = any(born - SECOND <= kill.store_at <= certificate.died_at for kill in kills)
        if orphaned or (life is not None and _was_ended(life, kinds)):
            continue
        found.append(f"{id} ({certificate.reason}: {certificate.text})")
    return found


def started_too_often(all: Snapshot) -> int:
    """Jobs whose handler began more often than planned."""
    kinds = all.kinds
    return sum(len(found) > planned_starts(kinds.get(job, "")) for job, found in all.book.of_job().items())


def run_through_twice(all: Snapshot) -> int:
    """Jobs whose handler came to a good end more than once; only one of these was committed."""
    return sum(sum(each.outcome == "done" for each in found) > 1 for found in all.book.of_job().values())


def throughput(all: Snapshot) -> float:
    """Handlers that came to an end, a second, from the first start to the last end."""
    over = [each.over_at for each in all.book.executions if each.outcome == "done" and each.over_at is not None]
    if len(over) < 2:
        return 0.0
    took = max(over) - min(each.started_at for each in all.book.executions)
    return round(len(over) * SECOND / took, 1)


def _was_ended(life: Life, kinds: dict[int, str]) -> bool:
    poisoned = any(kinds.get(each.job) == POISON for each in life.ended_with)
    return poisoned or any(fault.kind in FATAL for fault in life.faults)


def _next_start(again: dict[int, list[Execution]], life: Life) -> Instant:
    """When the job that a life ended with began again; 0 when it did not, or there was none."""
    cut = next(iter(life.ended_with), None)
    if cut is None:
        return 0
    return next((each.started_at for each in again[cut.job] if each.token > cut.token), 0)


def _next_life(all: Snapshot, life: Life) -> Instant:
    """When a life's slot was filled again; 0 when it was not."""
    return next((each.up_at for each in all.book.lives if each.slot == life.slot and each.up_at > life.up_at), 0)


def _first_up(all: Snapshot, kill: Injected) -> Instant:
    return next((life.up_at for life in _lives_after(all, kill)), 0)


def _first_start(all: Snapshot, kill: Injected) -> Instant:
    """When a worker that came after an orchestrator's death first began a job; 0 when none did."""
    new = {life.worker for life in _lives_after(all, kill)}
    return next((each.started_at for each in all.book.executions if each.worker in new), 0)


def _lives_after(all: Snapshot, kill: Injected) -> list[Life]:
    """The lives in the crew of a killed orchestrator that began after it."""
    crews = all.crews
    return [life for life in all.book.lives if life.up_at > kill.at and crews.get(life.slot) == kill.crew]
