"""The page on reliability, from `./dev chaos --docs`, `./dev soak --docs` and `./dev bench --docs`.

Every figure in its tables of storms, of the soak and of outages is measured. Typed by hand are the words around them:
the template, its last table, and a `note` that a run may carry, which tells how it was taken.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks._report import cell_text
from benchmarks.reliability import flat, pooled
from docs.pages.markdown import join, table
from docs.pages.performance import GAP, last_run, part

HERE = Path(__file__).resolve().parent
DATA, TEMPLATE = HERE.parent / "reliability.json", HERE / "reliability.template"
NOT_YET = "Not measured yet."


def page() -> str:
    """Return the page."""
    return page_of(json.loads(DATA.read_text(encoding="utf-8")))


def page_of(runs: dict[str, Any]) -> str:
    """Return the template with every gap filled."""
    chaos = runs.get("chaos")
    storms = chaos["storms"] if chaos else []
    gaps = {
        "taken": _taken(chaos) if chaos else NOT_YET,
        "counted": _counted(storms),
        "found": _found(storms),
        "mended sqlite": _mended(storms, "sqlite"),
        "mended postgres": _mended(storms, "postgres"),
        "outage": part(last_run(), "outage"),
        "soak sqlite": _soak(runs.get("soak sqlite")),
        "soak postgres": _soak(runs.get("soak postgres")),
        "flat": _rules([run for name, run in runs.items() if name.startswith("soak ")]),
    }
    return GAP.sub(lambda gap: gaps[gap[1]], TEMPLATE.read_text(encoding="utf-8"))


def _taken(run: dict[str, Any]) -> str:
    told = f"**Taken on {run['taken']}** with rota {run['rota']}, on a shared machine with {_machine(run)}."
    minutes = sorted({storm["options"]["minutes"] for storm in run["storms"]})
    lengths = " or ".join(f"{each:g}" for each in minutes) + (" minute" if minutes == [1] else " minutes")
    seeds = ", ".join(_seeds(run["storms"], store) for store in pooled.stores(run["storms"]))
    note = f"\n{run['note']}" if "note" in run else ""
    return f"{told}\nEach storm lasted {lengths}, then the queue was worked off; {seeds}.{note}"


def _seeds(storms: list[dict[str, Any]], store: str) -> str:
    seeds = sorted({storm["seed"] for storm in storms if storm["options"]["store"] == store})
    return f"seeds {seeds[0]} to {seeds[-1]} on {pooled.LABELS[store]}"


def _machine(run: dict[str, Any]) -> str:
    machine = run["machine"]
    return (
        f"{machine['cores']} cores and {machine['memory_gb']} GB ({machine['system']}, Python {machine['python']}),"
        f" which\nhad a load of {machine['load']} from other programs when it began"
    )


def _counted(storms: list[dict[str, Any]]) -> str:
    if not storms:
        return NOT_YET
    labels = [pooled.LABELS[store] for store in pooled.stores(storms)]
    return table(("in all storms", *labels), [[name, *cells] for name, cells in pooled.counted(storms)])


def _found(storms: list[dict[str, Any]]) -> str:
    found = pooled.bad(storms)
    if not found:
        return "No storm found anything." if storms else NOT_YET
    return "What was found:\n\n" + "\n".join(f"- {line}" for line in found)


def _mended(storms: list[dict[str, Any]], store: str) -> str:
    rows = pooled.mended(storms, store)
    return table(("fault", *pooled.PARTS.values()), [[kind, *cells] for kind, cells in rows]) if rows else NOT_YET


def _rules(runs: list[dict[str, Any]]) -> str:
    """Say what counts as flat, for each rule by which a soak was judged."""
    return join(*dict.fromkeys(run.get("rule", flat.RULE) for run in runs or [{}])).rstrip()


def _came_to(run: dict[str, Any]) -> str:
    """Say what became of the jobs. Earlier soaks did not examine the store and the captures."""
    told = f"{run['lost']} lost"
    if "astray" in run:
        told += (
            f", {run['astray']} astray in the store, {run['captures_left']} captures left behind by what was forgotten"
        )
    return told


def _soak(run: dict[str, Any] | None) -> str:
    if run is None:
        return NOT_YET
    where = pooled.LABELS[run["store"]]
    told = (
        f"**Taken on {run['taken']}** with rota {run['rota']}, on {where}, for {run['minutes']:g} minutes, on a shared"
        f" machine with {_machine(run)}:\n{run['rate']:g} jobs a second, {run['jobs']:,} in all, {_came_to(run)};"
        f" {run['kills']} workers killed, one every {run['churn']:g} s; stopped in {run['stop_seconds']:g} s."
    )
    rows = [[cell_text(cell) for cell in row.values()] for row in run["rows"]]
    loads = " / ".join(f"{load:g}" for load in run["loads"])
    beside = f"The load of the whole machine in the three thirds was {loads}: read the latency beside that."
    beside += f" {run['note']}" if "note" in run else ""
    return join(told, table(list(run["rows"][0]), rows), beside).rstrip()
