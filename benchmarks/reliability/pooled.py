"""Many storms, put together: one column for each database."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rota.lab.chaos.report import is_good
from rota.lab.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LABELS = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
PARTS = {"seen": "death written down", "rerun": "its job runs again", "refilled": "its slot is filled"}
Row = tuple[str, list[str]]


def stores(storms: Iterable[dict[str, Any]]) -> list[str]:
    """The databases that there were storms over, in a fixed order."""
    found = {storm["options"]["store"] for storm in storms}
    return [store for store in LABELS if store in found]


def bad(storms: Iterable[dict[str, Any]]) -> list[str]:
    """The storms that found something, or did not come to their end, each with its first reason."""
    found = []
    for storm in storms:
        if "error" in storm:
            found.append(f"{_name(storm)}: {storm['error']}")
        elif not is_good(storm):
            first = [f"{each['invariant']}: {each['text']}" for each in storm["violations"]]
            first += [f"false death: {each}" for each in storm["false_deaths"]]
            found.append(f"{_name(storm)}: {first[0] if first else 'a job was lost or committed twice'}")
    return found


def counted(storms: Sequence[dict[str, Any]]) -> list[Row]:
    """What was counted: a row for each thing, with a cell for each database."""
    kinds = sorted({kind for storm in storms for kind in storm.get("faults", ())})
    columns = [
        _column([each for each in storms if each["options"]["store"] == store], kinds) for store in stores(storms)
    ]
    return [(name, [column[name] for column in columns]) for name in columns[0]] if columns else []


def mended(storms: Sequence[dict[str, Any]], store: str) -> list[Row]:
    """How soon each kind of fault was seen and mended on one database: p50, p99, longest in ms, and of how many."""
    ours = [storm for storm in storms if storm["options"]["store"] == store and "error" not in storm]
    kinds = sorted({kind for storm in ours for kind in storm["mending_ms"]})
    return [(kind, [_spread(ours, kind, part) for part in PARTS]) for kind in kinds]


def _column(storms: Sequence[dict[str, Any]], kinds: Sequence[str]) -> dict[str, str]:
    whole = [storm for storm in storms if "error" not in storm]

    def total(*path: str) -> str:
        return f"{sum(_at(storm, *path) for storm in whole):,}"

    def longest(name: str) -> str:
        return f"{max((storm[name] for storm in whole), default=0):,.0f} ms"

    stops = [storm["stop_seconds"] for storm in whole]
    faults = Counter[str]()
    for storm in whole:
        faults.update(storm["faults"])
    return {
        "storms, each with a seed of its own": f"{len(storms)}",
        "minutes of storm in all": f"{sum(storm['options']['minutes'] for storm in storms):g}",
        "jobs accepted": total("jobs", "accepted"),
        "done": total("jobs", "done"),
        "failed as planned (they kill their worker)": total("jobs", "failed_as_planned"),
        "quarantined by the storm (it killed three workers that had the job)": total(
            "jobs", "quarantined_by_the_storm"
        ),
        "called off by people": f"{sum(storm['jobs'].get('called_off', 0) for storm in whole):,}",
        "waiting for one of those": total("jobs", "waiting_for_a_failed_one"),
        "done from the source, besides": total("jobs", "done_from_the_source"),
        **{f"fault: {kind}": f"{faults[kind]:,}" for kind in kinds},
        **{
            f"handlers begun / faults hit: {name}": _worker(whole, name)
            for name in dict.fromkeys(name for storm in storms for name in storm.get("by_kind_of_worker", ()))
        },
        "**lost**": total("lost"),
        "**committed more than once**": total("committed_more_than_once"),
        "**false deaths**": f"{sum(len(storm['false_deaths']) for storm in whole):,}",
        "**invariants violated**": f"{sum(len(storm['invariants_violated']) for storm in whole):,}",
        "**storms that found anything**": f"{len(bad(storms))}",
        "claims left after the stop": total("claims_left"),
        "handlers begun more often than planned": total("started_more_often_than_planned"),
        "handlers that ran through twice, committed once": total("run_through_more_than_once"),
        "stale outcomes refused": total("refused_stale_outcomes"),
        "longest stall": longest("longest_stall_ms"),
        "longest wait of ready work beside an idle worker": longest("longest_wait_ms"),
        "from ready to done, p50 / p99, the middle of all storms": _turnaround(whole, "turnaround_ms"),
        "the same jobs without a fault, where that was tried": _turnaround(whole, "undisturbed_turnaround_ms"),
        "jobs a second, of the pace without a fault, there": _pace(whole),
        "stop of the crew, p50 / longest": f"{percentile(stops, 0.5):.2f} / {max(stops):.2f} s" if stops else "–",
    }


def _worker(storms: Sequence[dict[str, Any]], name: str) -> str:
    found = [storm["by_kind_of_worker"].get(name, {"begun": 0, "faults": 0}) for storm in storms]
    return f"{sum(each['begun'] for each in found):,} / {sum(each['faults'] for each in found):,}"


def _turnaround(storms: Sequence[dict[str, Any]], name: str) -> str:
    found = [each for storm in storms if (each := storm.get(name)) is not None]
    if not found:
        return "–"
    return " / ".join(f"{percentile([each[part] for each in found], 0.5):,.0f} ms" for part in ("p50", "p99"))


def _pace(storms: Sequence[dict[str, Any]]) -> str:
    found = [each for storm in storms if (each := storm.get("of_the_undisturbed_pace")) is not None]
    return ", ".join(f"{each:.2f}" for each in found) or "–"


def _at(storm: dict[str, Any], *path: str) -> int:
    found: Any = storm
    for name in path:
        found = found[name]
    return int(found)


def _spread(storms: Sequence[dict[str, Any]], kind: str, part: str) -> str:
    spreads = [each for storm in storms if (each := storm["mending_ms"].get(kind, {}).get(part)) is not None]
    times = [time for spread in spreads for time in spread["each"]]
    if not times:
        return "–"
    return f"{percentile(times, 0.5):,.0f} / {percentile(times, 0.99):,.0f} / {max(times):,.0f} ({len(times)})"


def _name(storm: dict[str, Any]) -> str:
    return f"seed {storm['seed']} on {LABELS[storm['options']['store']]}"
