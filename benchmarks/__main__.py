"""Everything in one run: rota beside its peers and the raw limits, and every target judged.

./dev bench                  the whole of it, half an hour or more; `--quick` is shorter and rougher
./dev bench --json FILE      what was measured, to look at again with `--from FILE`
./dev bench --docs           write docs/performance.md and its chart from it
./dev bench NAME             one benchmark alone
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks import _report, simulation
from benchmarks._targets import ratios, targets
from benchmarks.peers.compare import chosen, compare
from benchmarks.peers.measure import Size
from benchmarks.peers.table import PEERS
from rota.core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "docs", "performance.json")
QUICK = Size(jobs=5_000, add_for=1.0, fill_for=1.5, drain_for=2.5, pickups=30)
# Each part: the module, what it is told, and what it is told instead in a quick run.
PARTS: dict[str, tuple[str, list[str], list[str]]] = {
    "crew sqlite": ("crew", [], ["--rounds", "3", "--idle", "10"]),
    "crew postgres": ("crew", ["--store", "postgres"], ["--store", "postgres", "--rounds", "1", "--idle", "5"]),
    "rows sqlite": ("rows", [], ["--rounds", "3"]),
    "rows postgres": ("rows", ["--store", "postgres"], ["--store", "postgres", "--rounds", "1"]),
    "depth": ("depth", ["--most", "5M"], ["--most", "100k", "--rounds", "100"]),
    "depth postgres": (
        "depth",
        ["--store", "postgres", "--most", "1M"],
        ["--store", "postgres", "--most", "100k", "--rounds", "100"],
    ),
    "dead": ("dead", [], ["--rows", "100000", "--rounds", "300"]),
    "recovery": ("recovery", [], ["--kills", "60"]),
    "load sqlite": ("load", [], ["--jobs", "600"]),
    "load postgres": ("load", ["--store", "postgres"], ["--store", "postgres", "--jobs", "600"]),
    "writers": ("writers", [], ["--seconds", "5"]),
    "beats sqlite": ("heartbeats", [], []),
    "beats postgres": ("heartbeats", ["--store", "postgres"], ["--store", "postgres"]),
    "unseen": ("silent_worker", [], []),
    "fanout": ("fanout", [], ["--changes", "20"]),
    "growth sqlite": ("growth", [], []),
    "growth postgres": ("growth", ["--store", "postgres"], ["--store", "postgres"]),
    "where sqlite": ("where", ["--rounds", "3"], []),
    "where postgres": ("where", ["--rounds", "3", "--store", "postgres"], ["--store", "postgres"]),
    "cli": ("cli", [], ["--rounds", "10"]),
    "cli http": ("cli", ["--http"], ["--http", "--rounds", "10"]),
    "cli http postgres": (
        "cli",
        ["--http", "--store", "postgres"],
        ["--http", "--store", "postgres", "--rounds", "10"],
    ),
    "outage": ("outage", ["--rounds", "3"], []),
    "http": ("http", [], ["--seconds", "4"]),
}


def teller() -> Callable[[str], None]:
    """Tells how far it is, and how long that took."""
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"bench {time.monotonic() - began:5.0f} s: {text}", file=sys.stderr, flush=True)

    return tell


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """One whole run, as one document."""
    told = teller()
    rounds, much = options.rounds or (1 if options.quick else 3), QUICK if options.quick else Size()
    run: dict[str, Any] = {"taken": datetime.now(UTC).strftime("%Y-%m-%d"), "machine": machine(), "rota": __version__}
    run |= {"rounds": rounds, "quick": options.quick}
    run |= {"peers": compare(chosen(options.peer), much, rounds, told), "parts": {}}
    measure_parts(run, list(PARTS), options, told)
    return run


def measure_parts(
    run: dict[str, Any], names: list[str], options: argparse.Namespace, told: Callable[[str], None]
) -> None:
    """Put what these benchmarks measure into the run."""
    for name in names:
        save(run, options.json)  # whatever comes next, this much is measured
        told(name)
        module, words, quick = PARTS[name]
        run["parts"][name] = part(module, quick if options.quick else words)
        if "error" in run["parts"][name]:
            told(f"{name} failed: {run['parts'][name]['error']}")


def save(run: dict[str, Any], path: str | None) -> None:
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(run, indent=1, ensure_ascii=False) + "\n")


def part(module: str, words: list[str]) -> dict[str, Any]:
    """What one benchmark measured, or the error that it ended with."""
    command = [sys.executable, "-m", f"benchmarks.{module}", "--json", *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        return {"error": (ran.stderr.strip().splitlines() or ["it said nothing"])[-1]}
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def machine() -> dict[str, Any]:
    """What the figures depend on most."""
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(file.readline().split()[1]) // 1_000_000
    return {
        "cores": os.cpu_count(),
        "memory_gb": memory,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def show(run: dict[str, Any]) -> None:
    """The comparison, then every target."""
    lines = [_line(system, ratio) for system, ratio in ratios(run)]
    _report.show("drained jobs/s, pickup and recovery; medians", lines, False)
    print()
    judged = targets(run)
    _report.show(
        "targets", [{"what": t.what, "target": t.wanted, "measured": t.measured, "met": t.met} for t in judged], False
    )
    met, missed = sum(t.met is True for t in judged), sum(t.met is False for t in judged)
    print(f"\n{met} of {len(judged)} targets met, {missed} missed, {len(judged) - met - missed} not measured")


def _line(system: dict[str, Any], ratio: float | None) -> dict[str, _report.Cell]:
    figures = system["figures"]

    def figure(name: str, which: str = "median") -> float | None:
        found: float | None = figures.get(name, {}).get(which)
        return found

    again = system["again"]
    return {
        "system": system["label"],
        "add one": figure("enqueue one"),
        "bulk": figure("enqueue bulk"),
        "1": figure("drain 1"),
        "2": figure("drain 2"),
        "4": figure("drain 4"),
        "rota ÷ this": ratio,
        "spread": figure("drain 2", "spread"),
        "pickup p50": figure("pickup"),
        "p99": figure("pickup", "p99"),
        "runs again, ms": system["missing"] or (again if again is not None else f"not in {system['again_within']:g} s"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench", description="rota beside its peers and the raw limits.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller counts")
    parser.add_argument("--rounds", type=int, default=None, help="how often all systems are measured, in turn")
    names = sorted({system.name for system in PEERS})
    parser.add_argument("--peer", action="append", default=[], choices=names, help="only this one; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there")
    parser.add_argument("--from", metavar="FILE", dest="given", help="measure nothing: read what was written before")
    parser.add_argument("--part", action="append", default=[], choices=PARTS, help="with --from: measure this anew")
    parser.add_argument("--docs", action="store_true", help="write docs/performance.md and its chart")
    options = parser.parse_args()
    if options.given:
        with open(options.given, encoding="utf-8") as file:
            run = json.load(file)
        measure_parts(run, options.part, options, teller())
    elif options.part:
        parser.error("--part needs --from FILE: what else there is in the run")
    else:
        run = measure(options)
    if options.part or not run.get("simulation"):
        run["simulation"] = simulation.document(run)
    save(run, options.json)
    show(run)
    if options.docs:
        save(run, DATA)
        subprocess.run([sys.executable, os.path.join(ROOT, "docs", "generate.py")], check=True)


if __name__ == "__main__":
    main()
