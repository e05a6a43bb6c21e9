"""What many samples come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def percentile(samples: Sequence[float], share: float) -> float:
    """The sample below which `share` of them lie."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(samples: Sequence[float]) -> float:
    return percentile(samples, 0.5)


def spread(samples: Sequence[float]) -> float:
    """How far apart the middle half of the samples is, as a share of the median."""
    return (percentile(samples, 0.75) - percentile(samples, 0.25)) / median(samples)


def median_ratio(ours: Sequence[float], raw: Sequence[float]) -> float:
    """The median of the ratios within each round: a slow minute of the machine hits both sides of one."""
    return median([a / b for a, b in zip(ours, raw, strict=True)])


def text(value: float) -> str:
    """As a person reads it."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
