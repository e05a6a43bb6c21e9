"""What a run is told as: the table, the page with every gap filled, and a chart that is well formed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.__main__ import PARTS
from benchmarks._report import cell_text
from benchmarks._targets import JUDGED, ratios, targets
from docs.pages.performance import GAP, TEMPLATE, last_run, page_of, picture_of, reasons
from rota.lab.percentiles import median, median_ratio, percentile, spread
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


def test_each_system_has_its_ratio_to_rota_on_the_same_kind_of_store_and_redis_to_sqlite() -> None:
    found = {system["label"]: ratio for system, ratio in ratios(whole())}
    assert found["rota on SQLite"] == found["rota on PostgreSQL"] == 1.0
    assert found["huey on SQLite"] == 13.0
    assert found["pgqueuer on PostgreSQL"] == 4.0
    assert found["dramatiq on Redis"] == 6.5
    assert "| huey | SQLite | 1,000 / – | 1,000 / – / 2,000 | 13 × |" in page_of(whole())


def test_a_system_without_figures_has_no_ratio() -> None:
    run = whole()
    run["peers"][2] |= {"missing": "cannot be installed", "figures": {}}
    run["peers"] = [system for system in run["peers"] if system["label"] != "rota on PostgreSQL"]
    found = {system["label"]: ratio for system, ratio in ratios(run)}
    assert found["huey on SQLite"] is None and found["pgqueuer on PostgreSQL"] is None


def test_a_row_that_is_not_met_is_told_with_what_stands_in_the_way() -> None:
    run = whole()
    assert "Every target that was measured is met." in page_of(run)
    run["parts"]["rows sqlite"]["rows"][1]["ratio"] = 0.3
    name = "enqueue in bulk, SQLite, of a raw insert"
    assert f"- **{name}**: 0.3, wanted ≥ 0.5. {reasons()[name].strip()}" in page_of(run)


def test_every_row_of_the_page_that_is_not_met_has_its_reason_and_every_reason_is_of_a_target() -> None:
    missed = {target.what for target in targets(last_run()) if target.met is False}
    assert missed <= set(reasons()), "say in docs/pages/unmet.toml what stands in the way"
    assert set(reasons()) <= {what for what, *_ in JUDGED}
    assert all(reasons().values())


@pytest.mark.parametrize("part", PARTS)
def test_every_part_that_is_measured_is_shown_on_the_page(part: str) -> None:
    assert f"{{{{{part}}}}}" in TEMPLATE.read_text(encoding="utf-8")


def test_the_chart_has_a_bar_for_each_system_and_longer_ones_for_more() -> None:
    root = ElementTree.fromstring(picture_of(whole()))
    bars = [float(bar.get("width", "0")) for bar in root.iter(f"{SVG}rect") if bar.get("height") == "15"]
    assert len(bars) == len(whole()["peers"])
    assert bars == sorted(bars, reverse=True)
    style = root.findtext(f"{SVG}style") or ""
    assert "prefers-color-scheme: dark" in style
