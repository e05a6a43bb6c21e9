"""What a run is told as: the table, the page with every gap filled, and a chart that is well formed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks._report import cell_text
from docs.pages.performance import GAP, page_of, picture_of
from rota.bench.figures import median, median_ratio, percentile, spread
from tests.bench.runs import whole

CELLS = [(None, "–"), (True, "yes"), (False, "NO"), (1234.5, "1,234"), (0.123, "0.123")]
SVG = "{http://www.w3.org/2000/svg}"


def test_figures_are_what_they_are_called() -> None:
    samples = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert (median(samples), percentile(samples, 0.99)) == (3.0, 5.0)
    assert spread(samples) == pytest.approx(2 / 3)
    assert median_ratio([1.0, 9.0, 2.0], [2.0, 3.0, 2.0]) == 1.0


@pytest.mark.parametrize(("cell", "shown"), CELLS)
def test_a_cell_is_shown_for_people(cell: float | None, shown: str) -> None:
    assert cell_text(cell) == shown


def test_the_page_has_every_gap_filled_even_where_a_part_failed() -> None:
    run = whole()
    run["parts"]["writers"] = {"error": "OSError: no space"}
    text = page_of(run)
    assert not GAP.search(text)
    assert "Not measured: OSError: no space." in text
    assert "| **rota** | SQLite |" in text and "not in 60 s" in text and "29.0 s" in text


def test_a_missing_peer_is_told_with_its_reason() -> None:
    run = whole()
    run["peers"][2] |= {"missing": "cannot be installed: no such version", "figures": {}}
    assert "missing: cannot be installed: no such version" in page_of(run)


def test_the_chart_has_a_bar_for_each_system_and_longer_ones_for_more() -> None:
    root = ElementTree.fromstring(picture_of(whole()))
    bars = [float(bar.get("width", "0")) for bar in root.iter(f"{SVG}rect") if bar.get("height") == "15"]
    assert len(bars) == len(whole()["peers"])
    assert bars == sorted(bars, reverse=True)
    style = root.findtext(f"{SVG}style") or ""
    assert "prefers-color-scheme: dark" in style
