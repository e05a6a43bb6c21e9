"""What storms come to, written by hand: one on each database, and nothing wrong with either."""

from __future__ import annotations

from typing import Any


def storm(seed: int = 1, store: str = "sqlite", **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "seed": seed,
        "options": {"store": store, "over": "database", "jobs": 100, "minutes": 0.5, "workers": 4, "kills": 9},
        "jobs": {
            "offered": 100,
            "accepted": 100,
            "done": 97,
            "failed_as_planned": 2,
            "quarantined_by_the_storm": 0,
            "failed_unexpectedly": 0,
            "called_off": 0,
            "waiting_for_a_failed_one": 1,
            "done_from_the_source": 10,
        },
        "faults": {"kill busy": 8, "kill orchestrator": 1},
        "by_kind_of_worker": {"function": {"begun": 90, "faults": 7}, "bash loop": {"begun": 18, "faults": 1}},
        "faults_without_a_victim": {},
        "started_more_often_than_planned": 8,
        "run_through_more_than_once": 1,
        "committed_more_than_once": 0,
        "lost": 0,
        "refused_stale_outcomes": 0,
        "false_deaths": [],
        "claims_left": 0,
        "mending_ms": {
            "kill busy": {"seen": spread(1.0, 2.0), "rerun": spread(10.0 * seed, 20.0), "refilled": spread(300.0)},
            "kill orchestrator": {"seen": None, "rerun": spread(700.0), "refilled": spread(600.0)},
        },
        "longest_stall_ms": 900.0 + seed,
        "longest_wait_ms": 40.0,
        "jobs_per_second": 33.0,
        "turnaround_ms": {"p50": 100.0 * seed, "p99": 900.0, "max": 1000.0},
        "worked_off": True,
        "stop_seconds": 0.25,
        "invariants_checked": ["I1"],
        "invariants_violated": [],
        "violations": [],
    }
    return {**told, **changes}


def spread(*times: float) -> dict[str, Any]:
    return {"p50": times[0], "p99": max(times), "max": max(times), "each": list(times)}


def run(*storms: dict[str, Any]) -> dict[str, Any]:
    machine = {"cores": 2, "memory_gb": 24, "system": "Linux x86_64", "python": "3.11.7", "load": 1.5}
    return {"taken": "2026-11-16", "machine": machine, "rota": "0.1.0", "storms": list(storms)}
