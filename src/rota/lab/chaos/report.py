"""The report of a storm: its latencies, a document for programs, a table for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rota.core import job as jobs
from rota.core import queue as queues
from rota.core.event import JobMoved, OrchestratorChanged, QueueChanged
from rota.core.record import Record
from rota.core.times import MILLISECOND, SECOND
from rota.lab.chaos.invariants import CHECKS, JUDGED_ONLINE, check, false_deaths, replay_of, untried
from rota.lab.chaos.plan import (
    FATAL,
    FLAKY,
    FREEZE_CREW,
    KILL_API,
    KILL_BUSY,
    KILL_ORCHESTRATOR,
    LOOPS,
    POISON,
    SOURCED,
    STORE_FAULTS,
    WORKERS,
)
from rota.lab.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.core.times import Duration, Instant
    from rota.lab.chaos.ledger_reader import Execution, Injected, Life
    from rota.lab.chaos.snapshot import Snapshot

MOST_SHOWN = 20


def document(snapshot: Snapshot) -> dict[str, Any]:
    """Return everything that a storm showed, as a JSON document."""
    replay = replay_of(snapshot)
    violations = check(snapshot, replay)
    options = snapshot.plan.options
    violated = sorted({violation.invariant for violation in violations}, key=lambda name: int(name[1:]))
    finishes = Counter(run.job_id for run in snapshot.runs if run.verb == jobs.FINISH)
    remains = snapshot.remains
    return {
        "seed": options.seed,
        "options": {
            "store": options.store,
            "over": options.over,
            "jobs": options.jobs,
            "minutes": options.minutes,
            "workers": options.workers,
            "kills": len(snapshot.plan.faults),
            "own_server": options.own_server,
        },
        "crews": {crew: dict(pools) for crew, pools in options.crews.items()},
        "loops": options.loops,
        "keys": options.keys,
        "limits": dict(snapshot.limits),
        "jobs": _jobs(snapshot),
        "faults": dict(Counter(fault.kind for fault in snapshot.ledger.faults)),
        "by_kind_of_worker": _by_worker(snapshot),
        "faults_without_a_victim": dict(Counter(snapshot.watch.missed)),
        "started_more_often_than_planned": _started_too_often(snapshot),
        "run_through_more_than_once": _run_through_twice(snapshot),
        "committed_more_than_once": sum(times > 1 for times in finishes.values()),
        "lost": len(snapshot.lost),
        "refused_stale_outcomes": snapshot.refused_outcomes,
        "false_deaths": false_deaths(snapshot),
        "claims_left": sum(job.status == jobs.ACTIVE for job in snapshot.jobs.values()),
        "mending_ms": {
            kind: {
                "seen": _latency(recovery.seen),
                "rerun": _latency(recovery.rerun),
                "refilled": _latency(recovery.refilled),
            }
            for kind, recovery in recoveries(snapshot).items()
        },
        "longest_stall_ms": round(replay.longest_stall / MILLISECOND, 1),
        "longest_wait_ms": round(replay.longest_wait / MILLISECOND, 1),
        "jobs_per_second": throughput(snapshot),
        "turnaround_ms": _latency(turnaround(snapshot), with_each=False),
        "worked_off": snapshot.watch.worked_off,
        "stop_seconds": round(snapshot.watch.stop_seconds, 3),
        "left_behind": {
            "processes": list(remains.processes),
            "pid_files": list(remains.files),
            "sockets": list(remains.sockets),
            "locks": list(remains.locks),
        },
        "invariants_checked": [name for name in CHECKS if name not in untried(snapshot)],
        "invariants_not_tried": untried(snapshot),
        "checked_on_the_way": list(JUDGED_ONLINE),
        "invariants_violated": violated,
        "violations": [
            {"invariant": violation.invariant, "text": violation.text, "at": violation.at} for violation in violations
        ],
    }


def is_good(document: dict[str, Any]) -> bool:
    """Return whether nothing was lost, committed twice, falsely declared dead or violated."""
    return not any(document[name] for name in ("lost", "committed_more_than_once", "false_deaths", "violations"))


def lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield the document as text."""
    options = ", ".join(f"{name} {value}" for name, value in document["options"].items())
    left = {name.replace("_", " "): names for name, names in document["left_behind"].items() if names}
    rows = [
        ("seed", document["seed"]),
        ("options", options),
        ("crews", _crews(document)),
        ("jobs", ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in document["jobs"].items())),
        ("faults", _counts(document["faults"])),
        ("faults without a victim", _counts(document["faults_without_a_victim"])),
        ("handlers begun / faults, by worker", _worker_cells(document["by_kind_of_worker"])),
        ("lost", document["lost"]),
        ("committed more than once", document["committed_more_than_once"]),
        ("started more often than planned", document["started_more_often_than_planned"]),
        ("run through more than once", document["run_through_more_than_once"]),
        ("refused stale outcomes", document["refused_stale_outcomes"]),
        ("false deaths", len(document["false_deaths"])),
        ("claims left", document["claims_left"]),
        ("longest stall", f"{document['longest_stall_ms']} ms"),
        ("longest wait beside an idle worker", f"{document['longest_wait_ms']} ms"),
        ("jobs a second", f"{document['jobs_per_second']}{_compared(document)}"),
        ("from ready to done", _turnaround(document)),
        ("stop", f"{document['stop_seconds']} s"),
        ("left behind", ", ".join(f"{name}: {' '.join(names)}" for name, names in left.items()) or "nothing"),
        ("invariants checked", " ".join(document["invariants_checked"])),
        ("not tried by this storm", " ".join(document["invariants_not_tried"]) or "none"),
        ("checked all the while", " ".join(document["checked_on_the_way"])),
        ("invariants violated", " ".join(document["invariants_violated"]) or "none"),
    ]
    widest = max(len(name) for name, _ in rows)
    yield from (f"{name:<{widest}}  {value}" for name, value in rows)
    yield from _mending_lines(document["mending_ms"])
    yield from (f"false death: {text}" for text in document["false_deaths"][:MOST_SHOWN])
    yield from map(_violation_line, document["violations"][:MOST_SHOWN])
    if len(document["violations"]) > MOST_SHOWN:
        yield f"… and {len(document['violations']) - MOST_SHOWN} more violations"


def _compared(document: dict[str, Any]) -> str:
    kept = document.get("of_the_undisturbed_pace")
    return "" if kept is None else f", {kept} of the pace without faults"


def _turnaround(document: dict[str, Any]) -> str:
    """Describe how long jobs took, beside the run without faults if there was one."""
    turnaround, calm = document["turnaround_ms"], document.get("undisturbed_turnaround_ms")
    if turnaround is None:
        return "–"
    without = "" if calm is None else f" (without faults {calm['p50']:,.0f} and {calm['p99']:,.0f} ms)"
    return f"p50 {turnaround['p50']:,.0f} ms, p99 {turnaround['p99']:,.0f} ms{without}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items())) or "none"


def _crews(document: dict[str, Any]) -> str:
    crews = [
        f"{crew} " + " ".join(f"{queue}={workers}" for queue, workers in pools.items())
        for crew, pools in document["crews"].items()
    ]
    limits = [f"at most {limit} at once in {queue}" for queue, limit in document["limits"].items()]
    return "; ".join([*crews, f"{document['loops']} bash loops", f"{document['keys']} keys of a source", *limits])


def _violation_line(violation: dict[str, Any]) -> str:
    moment = "" if violation["at"] is None else f"after {violation['at']:.1f} s: "
    return f"{moment}{violation['invariant']}: {violation['text']}"


def _started_too_often(snapshot: Snapshot) -> int:
    """Count the jobs whose handler began more often than it would have without faults."""
    planned = {FLAKY: 2, POISON: jobs.DEATHS_TO_QUARANTINE}
    kinds, by_job = snapshot.kinds, snapshot.ledger.executions_by_job()
    return sum(len(executions) > planned.get(kinds.get(job, ""), 1) for job, executions in by_job.items())


def _run_through_twice(snapshot: Snapshot) -> int:
    """Count the jobs whose handler succeeded more than once, of which only one run was committed."""
    by_job = snapshot.ledger.executions_by_job()
    return sum(sum(execution.outcome == "done" for execution in executions) > 1 for executions in by_job.values())


def _jobs(snapshot: Snapshot) -> dict[str, int]:
    kinds, states = snapshot.kinds, Counter(job.status for job in snapshot.jobs.values())
    failed = [id for id, job in snapshot.jobs.items() if job.status == jobs.FAILED]
    return {
        "offered": len(snapshot.ledger.offered),
        "accepted": len(snapshot.ledger.accepted),
        "done": states[jobs.DONE],
        "failed_as_planned": sum(kinds.get(id) == POISON for id in failed),
        "quarantined_by_the_storm": sum(kinds.get(id) != POISON and snapshot.is_expected_to_fail(id) for id in failed),
        "failed_unexpectedly": sum(not snapshot.is_expected_to_fail(id) for id in failed),
        "called_off": states[jobs.CANCELLED],
        "waiting_for_a_failed_one": states[jobs.BLOCKED],
        "done_from_the_source": snapshot.sourced.successes,
    }


def _by_worker(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Count the handlers that each kind of worker began, and the faults that hit it, as the ledger has them."""
    served = {queue for pools in snapshot.plan.options.crews.values() for queue in pools}
    ran = [snapshot.jobs.get(execution.job) for execution in snapshot.ledger.executions]
    begun = Counter(SOURCED if job is None else job.queue for job in ran)
    hit = Counter(life.queue for life in snapshot.ledger.lives for _ in life.faults)
    return {
        name: {"begun": begun[queue], "faults": hit[queue]}
        for queue, name in WORKERS.items()
        if queue in served or (queue == LOOPS and snapshot.plan.options.loops)
    }


def _worker_cells(by_worker: dict[str, dict[str, int]]) -> str:
    return ", ".join(f"{name} {counts['begun']} / {counts['faults']}" for name, counts in by_worker.items())


def _latency(latency: Latency | None, with_each: bool = True) -> dict[str, Any] | None:
    if latency is None:
        return None
    percentiles = {"p50": latency.p50, "p99": latency.p99, "max": latency.most}
    return {**percentiles, "each": list(latency.each)} if with_each else percentiles


def _mending_lines(mending: dict[str, Any]) -> Iterator[str]:
    if not mending:
        return
    yield ""
    widest = max(len("ms from fault to"), *map(len, mending))
    yield f"{'ms from fault to':<{widest}} {'seen':>24} {'job runs again':>24} {'slot filled again':>24}"
    yield f"{'':<{widest}}" + f" {'p50':>8}{'p99':>8}{'max':>8}" * 3
    for kind, recovery in mending.items():
        cells = "".join(f" {_latency_cells(recovery[part])}" for part in ("seen", "rerun", "refilled"))
        yield f"{kind:<{widest}}{cells}".rstrip()


def _latency_cells(latency: dict[str, float] | None) -> str:
    if latency is None:
        return f"{'–':>8}" * 3
    return "".join(f"{latency[name]:>8,.0f}" for name in ("p50", "p99", "max"))


class Latency(Record):
    """A distribution of durations, in milliseconds. `each` is sorted and complete, so that storms can be pooled."""

    each: tuple[float, ...]
    p50: float
    p99: float
    most: float


class Recovery(Record):
    """Latencies after a kind of fault: until it was noticed, the job ran again, the slot was filled again."""

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
    """Return whether a worker was alive and unharmed at that moment, and ran nothing."""
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
    """Return when the job that the end of a life cut short began again; 0 if it did not, or if there was none."""
    cut = next(iter(life.ended_with), None)
    if cut is None:
        return 0
    return next((execution.started_at for execution in executions[cut.job] if execution.token > cut.token), 0)


def _next_life(snapshot: Snapshot, life: Life) -> Instant:
    """Return when a life's slot was filled again; 0 if it was not."""
    in_slot = (other for other in snapshot.ledger.lives if other.slot == life.slot)
    return next((other.up_at for other in in_slot if other.up_at > life.up_at), 0)


def _was_frozen(snapshot: Snapshot, kill: Injected) -> bool:
    """Return whether a crew was frozen before it had recovered from the kill of its orchestrator."""
    recovered_at = _first_start(snapshot, kill) or kill.at
    freezes = [fault for fault in snapshot.ledger.faults_of(FREEZE_CREW) if fault.crew == kill.crew]
    return any(kill.at <= fault.at <= recovered_at for fault in freezes)


def _first_up(snapshot: Snapshot, kill: Injected) -> Instant:
    return next((life.up_at for life in _lives_after(snapshot, kill)), 0)


def _first_start(snapshot: Snapshot, kill: Injected) -> Instant:
    """Return when a worker that came up after the kill of its orchestrator first began a job; 0 if none did."""
    new = {life.worker for life in _lives_after(snapshot, kill)}
    return next((execution.started_at for execution in snapshot.ledger.executions if execution.worker in new), 0)


def _lapse(snapshot: Snapshot, fault: Injected) -> Instant:
    """Return when the lease of an orchestrator next expired; 0 if none did."""
    for event in snapshot.events:
        if event.at > fault.store_at and event.of(OrchestratorChanged, "lapse"):
            return event.at
    return 0


def _first_claim(snapshot: Snapshot, fault: Injected) -> Instant:
    """Return when one of the crews that were hit next claimed a job, on the store's clock; 0 if none did."""
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
