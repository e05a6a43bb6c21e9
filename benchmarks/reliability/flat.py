"""Whether a series is flat: what it was in the middle of a run beside what it was at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.bench.figures import median

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RULE = (
    "Flat means: the median of the last third of a run is at most a tenth above that of its middle third, or above it"
    " by no\nmore than a step that means nothing. The first third is for warming up: there is not yet much to forget."
    " Latency may\ndouble, because other programs share the machine."
)
SHARE = 1.1

# What is looked at: its unit, the step that means nothing, and how much more than before is still flat.
MEASURES: dict[str, tuple[str, float, float]] = {
    "memory of the orchestrator": ("MB", 2, SHARE),
    "memory of the remote orchestrator": ("MB", 2, SHARE),
    "memory of the API": ("MB", 4, SHARE),
    "memory of a worker": ("MB", 2, SHARE),
    "descriptors of the orchestrator": ("", 4, SHARE),
    "descriptors of the API": ("", 8, SHARE),
    "descriptors of a worker": ("", 2, SHARE),
    "database": ("MB", 1, SHARE),
    "write-ahead log": ("MB", 4, SHARE),
    "pickup, p50": ("ms", 10, 2),
    "pickup, p99": ("ms", 250, 2),
}
FEWEST = 6  # samples; of fewer nothing can be said


def judged(samples: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """A row for each measure: how it began, its middle, its end, and whether it is flat (None: cannot be said)."""
    return [_row(name, [sample[name] for sample in samples if name in sample]) for name in MEASURES]


def loads(samples: Sequence[Mapping[str, float]]) -> list[float]:
    """The load of the whole machine in the three thirds of a run: what latency is to be read beside."""
    series = [sample["load"] for sample in samples]
    third = len(series) // 3
    parts = (series[:third], series[third : len(series) - third], series[len(series) - third :])
    return [round(median(part), 1) for part in parts if part]


def _row(name: str, series: Sequence[float]) -> dict[str, Any]:
    unit, step, share = MEASURES[name]
    label = f"{name}, {unit}" if unit else name
    if len(series) < FEWEST:
        return {"what": label, "first third": None, "middle": None, "last": None, "most": None, "flat": None}
    third = len(series) // 3
    first, middle, last = series[:third], series[third:-third], series[-third:]
    flat = median(last) <= max(median(middle) * share, median(middle) + step)
    return {
        "what": label,
        "first third": round(median(first), 1),
        "middle": round(median(middle), 1),
        "last": round(median(last), 1),
        "most": round(max(series), 1),
        "flat": flat,
    }
