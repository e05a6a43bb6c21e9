"""Statistics of samples: percentiles, medians, how far they spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the sample below which `share` of them lie."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(samples: Sequence[float]) -> float:
    return percentile(samples, 0.5)


def spread(samples: Sequence[float]) -> float:
    """Return the width of the middle half of the samples, relative to their median."""
    return (percentile(samples, 0.75) - percentile(samples, 0.25)) / median(samples)


def median_ratio(ours: Sequence[float], raw: Sequence[float]) -> float:
    """Return the median of the ratios of each round: a slow minute of the machine affects both sides of a round."""
    return median([a / b for a, b in zip(ours, raw, strict=True)])


def text(value: float) -> str:
    """Format a figure for people, with three digits or as a whole number."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
