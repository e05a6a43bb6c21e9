"""What a storm came to: one document for programs, one table for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rota.core import job as jobs
from rota.core.times import MILLISECOND
from rota.lab.chaos import latencies
from rota.lab.chaos.expected import is_expected_to_fail, lost
from rota.lab.chaos.invariants import CHECKS, check, replay_of, untried
from rota.lab.chaos.online_checks import JUDGED
from rota.lab.chaos.plan import LOOPS, POISON, SOURCED, WORKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.lab.chaos.latencies import Spread
    from rota.lab.chaos.snapshot import Snapshot

MOST_SHOWN = 20


def document(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that a storm showed."""
    replay = replay_of(snapshot)
    violations = check(snapshot, replay)
    options = snapshot.plan.options
    broken = sorted({each.invariant for each in violations}, key=lambda name: int(name[1:]))
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
        "started_more_often_than_planned": latencies.started_too_often(snapshot),
        "run_through_more_than_once": latencies.run_through_twice(snapshot),
        "committed_more_than_once": sum(times > 1 for times in finishes.values()),
        "lost": len(lost(snapshot)),
        "refused_stale_outcomes": snapshot.refused_outcomes,
        "false_deaths": latencies.false_deaths(snapshot),
        "claims_left": sum(job.status == jobs.ACTIVE for job in snapshot.jobs.values()),
        "mending_ms": {
            kind: {"seen": _plain(each.seen), "rerun": _plain(each.rerun), "refilled": _plain(each.refilled)}
            for kind, each in latencies.mendings(snapshot).items()
        },
        "longest_stall_ms": round(replay.longest_stall / MILLISECOND, 1),
        "longest_wait_ms": round(replay.longest_wait / MILLISECOND, 1),
        "jobs_per_second": latencies.throughput(snapshot),
        "turnaround_ms": _plain(latencies.turnaround(snapshot), each=False),
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
        "checked_on_the_way": list(JUDGED),
        "invariants_violated": broken,
        "violations": [{"invariant": each.invariant, "text": each.text, "at": each.at} for each in violations],
    }


def is_good(told: dict[str, Any]) -> bool:
    """Whether nothing was lost, committed twice, falsely killed or violated."""
    return not (told["lost"] or told["committed_more_than_once"] or told["false_deaths"] or told["violations"])


def _compared(told: dict[str, Any]) -> str:
    kept = told.get("of_the_undisturbed_pace")
    return "" if kept is None else f", {kept} of the pace without faults"


def _turnaround(told: dict[str, Any]) -> str:
    """With the same without faults, where that was measured."""
    found, calm = told["turnaround_ms"], told.get("undisturbed_turnaround_ms")
    if found is None:
        return "–"
    beside = "" if calm is None else f" (without faults {calm['p50']:,.0f} and {calm['p99']:,.0f} ms)"
    return f"p50 {found['p50']:,.0f} ms, p99 {found['p99']:,.0f} ms{beside}"


def _counted(found: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(found.items())) or "none"


def _crews(told: dict[str, Any]) -> str:
    crews = [
        f"{crew} " + " ".join(f"{queue}={workers}" for queue, workers in pools.items())
        for crew, pools in told["crews"].items()
    ]
    limits = [f"at most {most} at once in {queue}" for queue, most in told["limits"].items()]
    return "; ".join([*crews, f"{told['loops']} bash loops", f"{told['keys']} keys of a source", *limits])


def lines(told: dict[str, Any]) -> Iterator[str]:
    """The document as people read it."""
    options = ", ".join(f"{name} {value}" for name, value in told["options"].items())
    faults = _counted(told["faults"])
    left = {name.replace("_", " "): found for name, found in told["left_behind"].items() if found}
    rows = [
        ("seed", told["seed"]),
        ("options", options),
        ("crews", _crews(told)),
        ("jobs", ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in told["jobs"].items())),
        ("faults", faults),
        ("faults without a victim", _counted(told["faults_without_a_victim"])),
        ("handlers begun / faults, by worker", _worker_cells(told["by_kind_of_worker"])),
        ("lost", told["lost"]),
        ("committed more than once", told["committed_more_than_once"]),
        ("started more often than planned", told["started_more_often_than_planned"]),
        ("run through more than once", told["run_through_more_than_once"]),
        ("refused stale outcomes", told["refused_stale_outcomes"]),
        ("false deaths", len(told["false_deaths"])),
        ("claims left", told["claims_left"]),
        ("longest stall", f"{told['longest_stall_ms']} ms"),
        ("longest wait beside an idle worker", f"{told['longest_wait_ms']} ms"),
        ("jobs a second", f"{told['jobs_per_second']}{_compared(told)}"),
        ("from ready to done", _turnaround(told)),
        ("stop", f"{told['stop_seconds']} s"),
        ("left behind", ", ".join(f"{name}: {' '.join(found)}" for name, found in left.items()) or "nothing"),
        ("invariants checked", " ".join(told["invariants_checked"])),
        ("not tried by this storm", " ".join(told["invariants_not_tried"]) or "none"),
        ("checked all the while", " ".join(told["checked_on_the_way"])),
        ("invariants violated", " ".join(told["invariants_violated"]) or "none"),
    ]
    widest = max(len(name) for name, _ in rows)
    yield from (f"{name:<{widest}}  {value}" for name, value in rows)
    yield from _mending_lines(told["mending_ms"])
    yield from (f"false death: {each}" for each in told["false_deaths"][:MOST_SHOWN])
    yield from map(_violation_line, told["violations"][:MOST_SHOWN])
    if len(told["violations"]) > MOST_SHOWN:
        yield f"… and {len(told['violations']) - MOST_SHOWN} more violations"


def _violation_line(violation: dict[str, Any]) -> str:
    moment = "" if violation["at"] is None else f"after {violation['at']:.1f} s: "
    return f"{moment}{violation['invariant']}: {violation['text']}"


def _jobs(snapshot: Snapshot) -> dict[str, int]:
    kinds, states = snapshot.kinds, Counter(job.status for job in snapshot.jobs.values())
    failed = [id for id, job in snapshot.jobs.items() if job.status == jobs.FAILED]
    return {
        "offered": len(snapshot.ledger.offered),
        "accepted": len(snapshot.ledger.accepted),
        "done": states[jobs.DONE],
        "failed_as_planned": sum(kinds.get(id) == POISON for id in failed),
        "quarantined_by_the_storm": sum(kinds.get(id) != POISON and is_expected_to_fail(snapshot, id) for id in failed),
        "failed_unexpectedly": sum(not is_expected_to_fail(snapshot, id) for id in failed),
        "called_off": states[jobs.CANCELLED],
        "waiting_for_a_failed_one": states[jobs.BLOCKED],
        "done_from_the_source": snapshot.sourced.successes,
    }


def _by_worker(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """How many handlers each kind of worker began, by the ledger, and how many faults hit one of it."""
    served = {queue for pools in snapshot.plan.options.crews.values() for queue in pools}
    begun = Counter(
        snapshot.jobs[each.job].queue if each.job in snapshot.jobs else SOURCED for each in snapshot.ledger.executions
    )
    hit = Counter(life.queue for life in snapshot.ledger.lives for _ in life.faults)
    return {
        name: {"begun": begun[queue], "faults": hit[queue]}
        for queue, name in WORKERS.items()
        if queue in served or (queue == LOOPS and snapshot.plan.options.loops)
    }


def _worker_cells(found: dict[str, dict[str, int]]) -> str:
    return ", ".join(f"{name} {each['begun']} / {each['faults']}" for name, each in found.items())


def _plain(spread: Spread | None, each: bool = True) -> dict[str, Any] | None:
    if spread is None:
        return None
    told = {"p50": spread.p50, "p99": spread.p99, "max": spread.most}
    return {**told, "each": list(spread.each)} if each else told


def _mending_lines(mending: dict[str, Any]) -> Iterator[str]:
    if not mending:
        return
    yield ""
    widest = max(len("ms from fault to"), *map(len, mending))
    yield f"{'ms from fault to':<{widest}} {'seen':>24} {'job runs again':>24} {'slot filled again':>24}"
    yield f"{'':<{widest}}" + f" {'p50':>8}{'p99':>8}{'max':>8}" * 3
    for kind, each in mending.items():
        cells = "".join(f" {_cells(each[part])}" for part in ("seen", "rerun", "refilled"))
        yield f"{kind:<{widest}}{cells}".rstrip()


def _cells(spread: dict[str, float] | None) -> str:
    if spread is None:
        return f"{'–':>8}" * 3
    return "".join(f"{spread[name]:>8,.0f}" for name in ("p50", "p99", "max"))
