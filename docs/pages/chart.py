"""A chart of bars as SVG, written by hand: it is readable on light and dark backgrounds and needs no library."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    Bar = tuple[str, str, float]  # its label, its group, its value

WIDTH, LABELS, VALUES, LINE, BAR, TOP = 760, 210, 70, 24, 15, 66
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 15px }
.quiet { fill: #59636e; font-size: 12px }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.ours { font-weight: 600 }
.g0 { fill: #0969da } .g1 { fill: #1a7f37 } .g2 { fill: #9a6700 } .raw { fill: #818b98 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .quiet { fill: #9198a1 } .grid { stroke: #3d444d }
  .g0 { fill: #4493f8 } .g1 { fill: #3fb950 } .g2 { fill: #d29922 } .raw { fill: #656c76 }
}
"""


def bars(title: str, unit: str, groups: Sequence[str], values: Sequence[Bar], ours: str, quiet: str) -> str:
    """Draw bars on a logarithmic scale, longest first. `ours` are emphasised; names that begin with `quiet` fade."""
    ordered = sorted(values, key=lambda bar: -bar[2])
    low = 10 ** math.floor(math.log10(min(value for *_, value in ordered)))
    high = 10 ** math.ceil(math.log10(max(value for *_, value in ordered)))
    height = TOP + LINE * len(ordered) + 30

    def x(value: float) -> float:
        return LABELS + (WIDTH - LABELS - VALUES) * math.log10(value / low) / math.log10(high / low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="0" y="18">{escape(title)}</text>',
        *_legend(groups, quiet),
    ]
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        at = x(10**power)
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="{TOP - 8}" x2="{at:.1f}" y2="{height - 24}"/>')
        words = f"{10**power:,}{' ' + unit if 10**power == high else ''}"
        parts.append(f'<text class="quiet" x="{at:.1f}" y="{height - 8}" text-anchor="middle">{escape(words)}</text>')
    for n, (label, group, value) in enumerate(ordered):
        parts += _bar(TOP + n * LINE, label, _style(label, group, groups, quiet), x(value), value, label == ours)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _style(label: str, group: str, groups: Sequence[str], quiet: str) -> str:
    return "raw" if label.startswith(quiet) else f"g{groups.index(group)}"


def _bar(y: int, label: str, style: str, end: float, value: float, is_ours: bool) -> list[str]:
    bold = ' class="ours"' if is_ours else ""
    return [
        f'<text{bold} x="{LABELS - 10}" y="{y + 12}" text-anchor="end">{escape(label)}</text>',
        f'<rect class="{style}" x="{LABELS}" y="{y}" width="{max(2.0, end - LABELS):.1f}" height="{BAR}" rx="2"/>',
        f'<text{bold} x="{end + 6:.1f}" y="{y + 12}">{value:,.0f}</text>',
    ]


def _legend(groups: Sequence[str], quiet: str) -> list[str]:
    found, at = [], 0
    for style, words in [*((f"g{n}", group) for n, group in enumerate(groups)), ("raw", quiet)]:
        found.append(f'<rect class="{style}" x="{at}" y="31" width="12" height="12" rx="2"/>')
        found.append(f'<text class="quiet" x="{at + 18}" y="42">{escape(words)}</text>')
        at += 40 + 8 * len(words)
    return found
