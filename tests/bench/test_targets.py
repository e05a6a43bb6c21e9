"""A run is judged by its own figures: each target can be missed, and what was not measured is neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from benchmarks._targets import JUDGED, targets
from tests.bench.runs import whole

if TYPE_CHECKING:
    from collections.abc import Callable


def met(run: dict[str, Any]) -> dict[str, bool | None]:
    return {target.what: target.met for target in targets(run)}


def drain(run: dict[str, Any], label: str, rate: float) -> None:
    found = next(system for system in run["peers"] if system["label"] == label)
    found["figures"]["drain 4"]["median"] = rate


def cell(run: dict[str, Any], part: str, row: int, column: str, value: float) -> None:
    run["parts"][part]["rows"][row][column] = value


def test_a_run_that_meets_every_target_is_told_so() -> None:
    assert met(whole()) == {what: True for what, *_ in JUDGED}


# The first word of what is missed, and the change that makes it so.
MISSED: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("work off a full queue, SQLite", lambda run: drain(run, "huey on SQLite", 2_300)),
    ("the same, against the best Redis", lambda run: drain(run, "dramatiq on Redis", 5_300)),
    ("the same, of the trial", lambda run: cell(run, "crew sqlite", 0, "ratio", 0.49)),
    ("work off a full queue, PostgreSQL", lambda run: drain(run, "pgqueuer, batch 100 on PostgreSQL", 8_100)),
    ("the same, against the best peer at", lambda run: drain(run, "pgqueuer on PostgreSQL", 4_100)),
    ("the same, of the raw", lambda run: cell(run, "crew postgres", 0, "ratio", 0.39)),
    ("enqueue one", lambda run: cell(run, "rows sqlite", 0, "ratio", 0.79)),
    ("enqueue in bulk", lambda run: cell(run, "rows sqlite", 1, "ratio", 0.49)),
    ("pickup p50, SQLite", lambda run: cell(run, "crew sqlite", 1, "ratio", 2.1)),
    ("a killed worker's", lambda run: cell(run, "recovery", 0, "p99 ms", 251)),
    ("cost of a claim", lambda run: cell(run, "depth", 0, "ratio ", 1.6)),
    ("idle crew", lambda run: cell(run, "crew sqlite", 5, "rota", 0.6)),
    ("orchestrator / HTTP", lambda run: cell(run, "http", 0, "MB", 46)),
    ("a hot verb", lambda run: cell(run, "cli", 0, "p95 ms", 101)),
    ("3 workers", lambda run: cell(run, "crew sqlite", 2, "rota", 2.8)),
    ("stop of an idle", lambda run: cell(run, "crew sqlite", 6, "rota", 1.1)),
    ("stop of a crew", lambda run: cell(run, "crew sqlite", 7, "rota", 3.1)),
    ("job of a dead", lambda run: cell(run, "unseen", 1, "runs again after, s", 63)),
    ("1,000 registered", lambda run: cell(run, "beats sqlite", 0, "measured", 1)),
    ("waits for the write", lambda run: cell(run, "writers", 1, "measured", 0.011)),
]


@pytest.mark.parametrize(("what", "change"), MISSED, ids=[what for what, _ in MISSED])
def test_a_figure_past_its_target_misses_it(what: str, change: Callable[[dict[str, Any]], None]) -> None:
    run = whole()
    change(run)
    assert next(is_met for name, is_met in met(run).items() if name.startswith(what)) is False


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    run = whole()
    run["parts"] = {"writers": {"error": "it said nothing"}}
    run["peers"] = [system for system in run["peers"] if system["on"] != "Redis"]
    found = met(run)
    assert found["waits for the write lock, 16 processes"] is None
    assert found["the same, against the best Redis peer"] is None
    assert found["work off a full queue, SQLite, against the best SQLite peer"] is True


def test_a_peer_that_is_missing_is_not_the_best_one() -> None:
    run = whole()
    huey = next(system for system in run["peers"] if system["name"] == "huey")
    huey["figures"], huey["missing"] = {}, "cannot be installed"
    run["peers"].append({**run["peers"][0], "name": "litequeue", "label": "litequeue on SQLite"})
    drain(run, "litequeue on SQLite", 1_000)
    (first, *_) = targets(run)
    assert "litequeue" in first.measured
