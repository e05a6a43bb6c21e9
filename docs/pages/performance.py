"""The page of figures, from one whole run of `./dev bench --docs`.

Every figure in its tables is measured. Typed by hand are the words around them: the template, what `unmet.toml` says of
targets that are not met, and a `note` that a run may carry, which tells how it was taken.
"""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import simulation
from benchmarks._report import cell_text
from benchmarks._targets import Target, ratios, targets
from benchmarks.peers.compare import RAW
from docs.pages import chart
from docs.pages.markdown import table

HERE = Path(__file__).resolve().parent
DATA, TEMPLATE = HERE.parent / "performance.json", HERE / "performance.template"
UNMET = HERE / "unmet.toml"
GROUPS = ("SQLite", "PostgreSQL", "Redis")
PEER_HEADS = (
    "system",
    "on",
    "enqueue one / bulk",
    "worked off by 1 / 2 / 4",
    "rota ÷ this",
    "spread",
    "pickup p50 / p99",
    "again",
)
NAMES = {
    "exchange": "what an exchange takes the server",
    "job": "what each job in it takes the server",
    "host": "what an exchange takes its orchestrator",
    "host_job": "what each job in it takes its orchestrator",
}
UNKNOWN = "Nobody has looked into it yet."
GAP = re.compile(r"\{\{(.+?)\}\}")


@cache
def last_run() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def page() -> str:
    """Return the page."""
    return page_of(last_run())


def picture() -> str:
    """Return the chart of the page."""
    return picture_of(last_run())


def page_of(run: dict[str, Any]) -> str:
    """Return the template with every gap filled."""
    gaps = {
        "taken": _taken(run),
        "peers": table(PEER_HEADS, [_peer(system, ratio) for system, ratio in ratios(run)]),
        "systems": _systems(run),
        "targets": table(("what", "wanted", "measured", "met"), [_target(target) for target in targets(run)]),
        "unmet": _unmet(run, reasons()),
        "capacity": _capacity(run),
        "estimate": _estimate(run),
        "simulation": _rows(simulation.rows(run["simulation"])) if run.get("simulation") else "",
    }
    return GAP.sub(lambda gap: gaps.get(gap[1]) or part(run, gap[1]), TEMPLATE.read_text(encoding="utf-8"))


def picture_of(run: dict[str, Any]) -> str:
    found = []
    for system in run["peers"]:
        rates = [each["median"] for name, each in system["figures"].items() if name.startswith("drain")]
        if rates:
            name = f"{RAW}, {system['on']}" if system["name"] == RAW else system["name"]
            found.append((name, system["on"], max(rates)))
    title = "Worked off from a full queue, best of 1, 2 and 4 worker processes (logarithmic)"
    return chart.bars(title, "jobs/s", GROUPS, found, "rota", RAW)


def _taken(run: dict[str, Any]) -> str:
    machine = run["machine"]
    size = "in a quick run with smaller counts, " if run["quick"] else ""
    where = f"{machine['cores']} cores and {machine['memory_gb']} GB ({machine['system']}, Python {machine['python']})"
    told = (
        f"**Taken on {run['taken']}** with rota {run['rota']}, {size}{run['rounds']} rounds, on a shared machine with"
        f" {where}\nthat had a load of {machine['load']} from other programs when it began."
    )
    return f"{told} {run['note']}" if "note" in run else told


def _peer(system: dict[str, Any], ratio: float | None) -> list[str]:
    figures = system["figures"]

    def shown(*names: str, which: str = "median") -> str:
        return " / ".join(cell_text(figures.get(name, {}).get(which)) for name in names)

    name = f"**{system['name']}**" if system["name"] == "rota" else system["name"]
    if system["missing"]:
        return [name, system["on"], "–", f"missing: {system['missing']}", "–", "–", "–", "–"]
    adds, drains = shown("enqueue one", "enqueue bulk"), shown("drain 1", "drain 2", "drain 4")
    pickup = f"{shown('pickup')} / {shown('pickup', which='p99')}"
    times = "–" if ratio is None else f"{cell_text(ratio)} ×"
    return [name, system["on"], adds, drains, times, shown("drain 2", which="spread"), pickup, _again(system)]


def _again(system: dict[str, Any]) -> str:
    again = system["again"]
    if system["name"] == RAW:
        return "–"
    if again is None:
        return f"not in {system['again_within']:g} s"
    if isinstance(again, str):
        return f"not measured: {again}"
    return f"{again / 1000:.1f} s" if again >= 1000 else f"{again:.0f} ms"


def _systems(run: dict[str, Any]) -> str:
    rows = [
        [system["name"], system["on"], ", ".join(system["installed"]) or "–", system["durable"], system["note"]]
        for system in run["peers"]
    ]
    return table(("system", "on", "installed", "durability", "what else"), rows)


def _target(target: Target) -> list[str]:
    met = {True: "yes", False: "**no**", None: "–"}[target.met]
    return [target.what, target.wanted, target.measured, met]


@cache
def reasons() -> dict[str, str]:
    """Return why each unmet target is not met and what was tried, by the target's name."""
    return tomllib.loads(UNMET.read_text(encoding="utf-8"))


def _unmet(run: dict[str, Any], reasons: dict[str, str]) -> str:
    """List every unmet target with its reason, or that nobody has looked into it."""
    missed = [target for target in targets(run) if target.met is False]
    if not missed:
        return "Every target that was measured is met."
    return "\n".join(
        f"- **{target.what}**: {target.measured}, wanted {target.wanted}. {reasons.get(target.what, UNKNOWN).strip()}"
        for target in missed
    )


def part(run: dict[str, Any], name: str) -> str:
    """The measurements of one benchmark."""
    found = run["parts"].get(name, {})
    if "rows" not in found:
        return f"Not measured: {found.get('error', 'left out of this run')}."
    return f"{found['benchmark']}:\n\n{_rows(found['rows'])}"


def _rows(rows: list[dict[str, Any]]) -> str:
    return table([head.strip() for head in rows[0]], [[cell_text(cell) for cell in row.values()] for row in rows])


def _capacity(run: dict[str, Any]) -> str:
    found, cores = [], run["machine"]["cores"]
    for system in run["peers"]:
        rates = [each["median"] for name, each in system["figures"].items() if name.startswith("drain")]
        if system["name"] == "rota" and rates:
            best = max(rates)
            found.append(f"{cell_text(best)} jobs/s on {system['on']}, {cell_text(best / cores)} for each core")
    return (
        f"No-op jobs on the machine above, orchestrator, workers and database together: {'; '.join(found)}.\n"
        "A job that does something adds its own time to that; the overhead stays."
    )


def _estimate(run: dict[str, Any]) -> str:
    told = run.get("simulation")
    if not told:
        return "This run has no figures to estimate from."
    costs = told["costs"]
    assumed = ", ".join(f"{value:g} {name}" for name, value in told["assumed"].items())
    return (
        f"(seed {told['seed']}) from what statements cost above. An exchange takes the server"
        f" {costs['exchange'] * 1e3:.2f} ms and {costs['job'] * 1e6:.0f} µs for each job in it,"
        f"\nand its orchestrator {costs['host'] * 1e3:.2f} ms and"
        f" {costs['host_job'] * 1e6:.0f} µs; a sync of the disk takes {costs['sync'] * 1e3:.2f} ms, and a job"
        f" {costs['wal_job']:,.0f} bytes of the log.\nAssumed: {assumed}.{_noise(costs)}"
    )


def _noise(costs: dict[str, float]) -> str:
    lost = [NAMES[name] for name in simulation.lost_in_noise(costs)]
    if not lost:
        return ""
    return (
        f"\nLost in the noise of this run, and reckoned as next to nothing: {', '.join(lost)}. Costs taken on so busy a"
        " machine\nmake the table a rough guess."
    )
