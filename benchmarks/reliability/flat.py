"""Whether a series is flat: what it was before beside what it was at the end of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rota.lab.percentiles import median

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

RULE = """\
Flat means: the last third of a run is not above its middle third, but for a little; the first third is for warming
up, when there is not yet much to forget. Pickup warms up in no time and is set beside the first third, so that a slow
rise counts in full. A third counts by the median of its looks, of a worker's descriptors by the fewest, since what it
runs has some too. Memory may be 1 % and 0.3 MB above, descriptors by one, files by two, sizes and the log by a tenth
and a little, pickup by a quarter and 2 ms (p50) or a half and 10 ms (p99), because other programs share the machine.
*A worker*, one of each kind, is one that is never killed."""


class Measure(NamedTuple):
    """How one series is judged: `last <= share * before + step`, each third told by one figure of its looks."""

    unit: str = ""
    share: float = 1.0
    step: float = 0.0
    figure: Callable[[Sequence[float]], float] = median
    from_the_first: bool = False  # what came before is the first third, not the middle one

    def is_flat(self, first: float, middle: float, last: float) -> bool:
        return last <= self.share * (first if self.from_the_first else middle) + self.step


# Why so much and no more: in the hours that were recorded, under loads of 7 to 8 on two cores, no memory moved by more
# than 0.1 MB from the middle third to the last; of pickup a third lay above another by up to a seventh (p50) or by two
# thirds, 28 ms (p99), and the next was below it again. So what an orchestrator leaks is found in an hour from some 25
# bytes a job on, and a pickup that slows down from 50 to 90 ms.
_memory = Measure("MB", 1.01, 0.3)
_descriptors = Measure("", 1.0, 1)
_PROCESSES = ("the orchestrator", "the remote orchestrator", "the API")
_WORKERS = ("a worker", "a worker of commands", "a remote worker")
MEASURES: dict[str, Measure] = {
    **{f"memory of {each}": _memory for each in (*_PROCESSES, *_WORKERS)},
    **{f"descriptors of {each}": _descriptors for each in _PROCESSES},
    **{f"descriptors of {each}": _descriptors._replace(figure=min) for each in _WORKERS},
    "database": Measure("MB", 1.1, 0.2),
    "write-ahead log": Measure("MB", 1.1, 0.5),
    "captures": Measure("KB", 1.1, 50),
    "files besides captures": Measure("", 1.0, 2),
    "log written": Measure("KB a minute", 1.1, 2),
    "pickup, p50": Measure("ms", 1.25, 2, from_the_first=True),
    "pickup, p99": Measure("ms", 1.5, 10, from_the_first=True),
}
FEWEST = 6  # samples; of fewer nothing can be said


def judged(samples: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """A row for each measure: how it began, its middle, its end, and whether it is flat (None: cannot be said)."""
    return [_row(name, [sample[name] for sample in samples if name in sample]) for name in MEASURES]


def loads(samples: Sequence[Mapping[str, float]]) -> list[float]:
    """The load of the whole machine in the three thirds of a run: what latency is to be read beside."""
    return [round(median(part), 1) for part in _thirds([sample["load"] for sample in samples]) if part]


def _row(name: str, series: Sequence[float]) -> dict[str, Any]:
    measure = MEASURES[name]
    label = f"{name}, {measure.unit}" if measure.unit else name
    if len(series) < FEWEST:
        return {"what": label, "first third": None, "middle": None, "last": None, "most": None, "flat": None}
    first, middle, last = (measure.figure(part) for part in _thirds(series))
    return {
        "what": label,
        "first third": round(first, 1),
        "middle": round(middle, 1),
        "last": round(last, 1),
        "most": round(max(series), 1),
        "flat": measure.is_flat(first, middle, last),
    }


def _thirds(series: Sequence[float]) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    third = len(series) // 3
    return series[:third], series[third : len(series) - third], series[len(series) - third :]
