"""All systems in turn, round after round, with the raw limits between them; then every kill, side by side."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from benchmarks.peers import measure
from benchmarks.peers.places import CannotRun, places
from benchmarks.peers.table import OURS, PEERS, POSTGRES, REDIS, SQLITE, System
from rota.lab.bench import bare, store_rates
from rota.lab.percentiles import median, percentile, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.peers.measure import Size
    from benchmarks.peers.places import Places

    Found = dict[str, list[float]]

RAW = "raw limit"
LIMITS = (
    System(RAW, SQLITE, "", (), "synchronous=FULL", "plain Python, the same rows, nothing around it"),
    System(RAW, POSTGRES, "", (), "synchronous_commit=on", "one statement for each hundred, no workers"),
)
WORKERS = (1, 2, 4)
ADDED_RAW = 500


def compare(systems: Sequence[System], much: Size, rounds: int, told: Callable[[str], None]) -> list[dict[str, Any]]:
    """Each system's figures, or why it is missing."""
    found: dict[str, Found] = {system.label: {} for system in systems}
    missing: dict[str, str] = {}
    with places() as where:
        for number in range(1, rounds + 1):
            for system in systems:
                if system.label in missing:
                    continue
                told(f"round {number} of {rounds}: {system.label}")
                try:
                    _add(found[system.label], one_round(system, where, much))
                except CannotRun as problem:
                    missing[system.label] = str(problem)
                    told(f"{system.label} is missing: {problem}")
        alive = [system for system in systems if system.label not in missing and system.name != RAW]
        told(f"kill a worker of each, and wait at most {much.again_within:g} s for its job")
        for on in {system.on for system in alive}:
            where.fresh(on)  # the servers are up before the threads ask for places
        with ThreadPoolExecutor(len(alive) or 1) as pool:
            again = dict(
                zip(
                    [each.label for each in alive], pool.map(lambda each: _again(each, where, much), alive), strict=True
                )
            )
    return [_entry(system, found[system.label], missing, again, much) for system in systems]


def chosen(words: Sequence[str]) -> list[System]:
    """Ours and the raw limits, with the peers that are named, or all of them."""
    groups = []
    for on in (SQLITE, POSTGRES, REDIS):
        everyone = [system for system in (*OURS, *LIMITS, *PEERS) if system.on == on]
        groups += [system for system in everyone if not words or system not in PEERS or system.name in words]
    return groups


def one_round(system: System, where: Places, much: Size) -> Found:
    """Everything but the kill, once."""
    if system.name == RAW:
        return _limits(system.on, where, much)
    found = {name: [rate] for name, rate in measure.enqueue(system, where, much).items()}
    for workers in WORKERS:
        found[f"drain {workers}"] = [measure.drain(system, where, workers, much)]
    return {**found, "pickup": measure.pickup(system, where, much)}


def _limits(on: str, where: Places, much: Size) -> Found:
    def url() -> str:
        place = where.fresh(on)
        return place if "://" in place else os.path.join(place, "raw.db")

    bulk = max(1, much.jobs // 1000)
    found = {
        "enqueue one": [store_rates.enqueue_raw(url(), 1, ADDED_RAW)],
        "enqueue bulk": [store_rates.enqueue_raw(url(), 1000, bulk)],
    }
    if on == POSTGRES:
        return {**found, "drain 1": [store_rates.drain_raw(url(), 100, much.jobs)]}
    for workers in WORKERS:
        found[f"drain {workers}"] = [bare.drain(url(), much.jobs, workers)]
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        return {**found, "pickup": bare.pickup(os.path.join(folder, "raw.db"), much.pickups)}


def _again(system: System, where: Places, much: Size) -> float | str | None:
    try:
        return measure.again(system, where, much)
    except CannotRun as problem:
        return str(problem)


def _add(found: Found, more: Found) -> None:
    for name, samples in more.items():
        found.setdefault(name, []).extend(samples)


def _entry(
    system: System, found: Found, missing: dict[str, str], again: dict[str, float | str | None], much: Size
) -> dict[str, Any]:
    figures = {
        name: {"median": median(each), "spread": spread(each), "samples": len(each)}
        for name, each in found.items()
        if each
    }
    if found.get("pickup"):
        figures["pickup"]["p99"] = percentile(found["pickup"], 0.99)
    return {
        "name": system.name,
        "on": system.on,
        "label": system.label,
        "installed": list(system.requirements),
        "durable": system.durable,
        "note": system.note,
        "missing": missing.get(system.label),
        "figures": figures,
        "again": again.get(system.label),
        "again_within": much.again_within,
    }
