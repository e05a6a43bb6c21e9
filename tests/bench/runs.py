"""A whole run of the benchmarks, made up: figures that meet every target by a little."""

from __future__ import annotations

from typing import Any

from benchmarks._targets import CRASHED, CUT


def figure(median: float, **more: float) -> dict[str, float]:
    return {"median": median, "spread": 0.1, "samples": 3, **more}


def system(name: str, on: str, drain: float, pickup: float = 5.0, again: Any = None) -> dict[str, Any]:
    figures = {"enqueue one": figure(1000), "drain 1": figure(drain / 2), "drain 4": figure(drain)}
    figures["pickup"] = figure(pickup, p99=pickup * 2)
    about = {
        "installed": [f"{name}==1.0"],
        "durable": "every commit",
        "note": "",
        "missing": None,
        "again_within": 60.0,
    }
    return {"name": name, "on": on, "label": f"{name} on {on}", "figures": figures, "again": again, **about}


def measured(**rows: float) -> dict[str, Any]:
    """A part whose rows are named with underscores for spaces."""
    named = [{"what": name.replace("_", " "), "measured": value} for name, value in rows.items()]
    return {"benchmark": "a part", "rows": named}


def crew(ratio: float) -> dict[str, Any]:
    rows = {
        "no-op jobs/s, the best of these": (26_000, ratio),
        "pickup p50 ms": (2.7, 1.9),
        "3 workers against 1, 100 ms jobs": (2.95, 1.0),
        "orchestrator, resident MB": (28.0, None),
        "worker, resident MB": (20.0, None),
        "idle crew of 10, % of a core": (0.3, None),
        "stop of an idle crew, s": (0.4, None),
        "stop amid 1 s jobs, s": (1.4, None),
    }
    return {
        "benchmark": "crew",
        "rows": [{"what": what, "rota": rota, "bare": 1.0, "ratio": r} for what, (rota, r) in rows.items()],
    }


def beats() -> dict[str, Any]:
    return measured(missed_beats=0.0, workers_taken_for_dead=0.0, ratio=1.1)


def verbs() -> dict[str, Any]:
    return {"benchmark": "cli", "rows": [{"verb": "claim", "p95 ms": 80.0, "ratio": 2.5}]}


def depth(largest: str) -> dict[str, Any]:
    sizes = (("1,000", 1.0), (largest, 1.2))
    return {"benchmark": "depth", "rows": [{"ready": size, "ratio": ratio, "ratio ": 1.1} for size, ratio in sizes]}


def whole() -> dict[str, Any]:
    enqueued = [{"jobs/s": "enqueue 1", "ratio": 0.85}, {"jobs/s": "enqueue 1,000", "ratio": 0.55}]
    exchanges = [
        {"jobs/s": f"exchange {n}", "rota": rota, "raw": raw} for n, rota, raw in ((1, 500, 900), (100, 12e3, 22e3))
    ]
    return {
        "taken": "2026-11-16",
        "machine": {"cores": 2, "memory_gb": 24, "system": "Linux", "python": "3.11.7", "load": 0.5},
        "rota": "0.1.0",
        "rounds": 3,
        "quick": False,
        "peers": [
            system("rota", "SQLite", 26_000, again=9.0),
            system("raw limit", "SQLite", 50_000),
            system("huey", "SQLite", 2_000, again=None),
            system("rota", "PostgreSQL", 12_000, pickup=4.0),
            system("pgqueuer", "PostgreSQL", 3_000, again=29_000.0),
            system("pgqueuer, batch 100", "PostgreSQL", 7_500),
            system("dramatiq", "Redis", 4_000),
        ],
        "parts": {
            "crew sqlite": crew(0.52),
            "crew postgres": crew(0.45),
            "rows sqlite": {"benchmark": "rows", "rows": enqueued},
            "rows postgres": {"benchmark": "rows", "rows": exchanges},
            "recovery": {
                "benchmark": "recovery",
                "rows": [{"from": "busy", "measured": 200, "p99 ms": 60.0, "target p99": 250.0, "settled once": True}],
            },
            "depth": depth("5,000,000"),
            "depth postgres": depth("1,000,000"),
            "dead": {"benchmark": "dead", "rows": [{"dead rows": "1,000,000", "exchange p99 ms": 40.0, "ratio": 1.2}]},
            "http": {
                "benchmark": "http",
                "rows": [
                    {"step": "idle", "p99 ms": None, "MB": 38.0},
                    {"step": "1000 requests/s beside them", "p99 ms": 41.0, "MB": 44.0},
                ],
            },
            "fanout": {
                "benchmark": "fanout",
                "rows": [{"readers": 1, "events": 50, "reached": 50, "p99 ms": 60.0}],
            },
            "outage": {
                "benchmark": "outage",
                "rows": [{"what": CRASHED, "ratio": 0.99}, {"what": CUT, "ratio": 0.93}],
            },
            "cli": verbs(),
            "cli http": verbs(),
            "cli http postgres": verbs(),
            "unseen": {
                "benchmark": "unseen",
                "rows": [{"beats": 5, "runs again after, s": 10.1}, {"beats": 30, "runs again after, s": 60.2}],
            },
            "beats sqlite": beats(),
            "beats postgres": beats(),
            "writers": measured(longest_ms=132.0, share_above_50_ms=0.002, errors=0.0),
            "growth postgres": {
                "benchmark": "growth",
                "rows": [
                    {"what": "fsync of a page, ms", "measured": 0.3},
                    {"what": "bytes of log per job, 100 at once", "measured": 1249.0},
                ],
            },
        },
    }
