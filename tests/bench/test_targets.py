"""A run is judged by its own figures: each target can be missed, and what was not measured is neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from benchmarks._targets import JUDGED, targets
from tests.bench.runs import whole

if TYPE_CHECKING:
    from collections.abc import Callable

TUNED = "pgqueuer, batch 100 on PostgreSQL"


def met(run: dict[str, Any]) -> dict[str, bool | None]:
    return {target.what: target.met for target in targets(run)}


def drain(run: dict[str, Any], label: str, rate: float) -> None:
    found = next(system for system in run["peers"] if system["label"] == label)
    found["figures"]["drain 4"]["median"] = rate


def cell(run: dict[str, Any], part: str, row: int, column: str, value: object) -> None:
    run["parts"][part]["rows"][row][column] = value


def test_a_run_that_meets_every_target_is_told_so() -> None:
    assert met(whole()) == {what: True for what, *_ in JUDGED}


def pickup(run: dict[str, Any], label: str, ms: float) -> None:
    found = next(system for system in run["peers"] if system["label"] == label)
    found["figures"]["pickup"]["median"] = ms


# How the name of what is missed begins, and the change that makes it so.
QUEUE, QUIET = "work off a full queue", "on a quiet machine:"
MISSED: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    (f"{QUEUE}, SQLite, against the best SQLite", lambda run: drain(run, "huey on SQLite", 2_300)),
    (f"{QUEUE}, SQLite, against the best Redis", lambda run: drain(run, "dramatiq on Redis", 5_300)),
    (f"{QUEUE}, SQLite, of the trial", lambda run: cell(run, "crew sqlite", 0, "ratio", 0.49)),
    (f"{QUEUE}, PostgreSQL, against the best tuned", lambda run: drain(run, TUNED, 8_100)),
    (f"{QUEUE}, PostgreSQL, against the best peer at", lambda run: drain(run, "pgqueuer on PostgreSQL", 4_100)),
    (f"{QUEUE}, PostgreSQL, of the raw", lambda run: cell(run, "crew postgres", 0, "ratio", 0.39)),
    ("enqueue one", lambda run: cell(run, "rows sqlite", 0, "ratio", 0.79)),
    ("enqueue in bulk", lambda run: cell(run, "rows sqlite", 1, "ratio", 0.49)),
    ("pickup p50, SQLite", lambda run: cell(run, "crew sqlite", 1, "ratio", 2.1)),
    ("pickup p50, PostgreSQL", lambda run: pickup(run, "rota on PostgreSQL", 5.1)),
    ("a killed worker's", lambda run: cell(run, "recovery", 0, "p99 ms", 251)),
    ("cost of a claim, SQLite", lambda run: cell(run, "depth", 1, "ratio ", 1.6)),
    ("cost of a claim, PostgreSQL", lambda run: cell(run, "depth postgres", 1, "ratio", 1.6)),
    ("p99 of a crew's claim, PostgreSQL", lambda run: cell(run, "dead", 0, "ratio", 5.1)),
    ("idle crew", lambda run: cell(run, "crew sqlite", 5, "rota", 0.6)),
    ("orchestrator / HTTP", lambda run: cell(run, "http", 0, "MB", 46)),
    ("a hot verb of", lambda run: cell(run, "cli", 0, "p95 ms", 101)),
    ("a hot verb over HTTP, on SQLite", lambda run: cell(run, "cli http", 0, "ratio", 3.1)),
    ("a hot verb over HTTP, on PostgreSQL", lambda run: cell(run, "cli http postgres", 0, "ratio", 3.1)),
    ("3 workers", lambda run: cell(run, "crew sqlite", 2, "rota", 2.8)),
    ("stop of an idle", lambda run: cell(run, "crew sqlite", 6, "rota", 1.1)),
    ("stop of a crew", lambda run: cell(run, "crew sqlite", 7, "rota", 3.1)),
    ("job of a dead beating worker, a beat every 30", lambda run: cell(run, "unseen", 1, "runs again after, s", 63)),
    ("job of a dead beating worker, a beat every 5", lambda run: cell(run, "unseen", 0, "runs again after, s", 13)),
    ("1,000 registered", lambda run: cell(run, "beats sqlite", 0, "measured", 1)),
    ("10,000 registered", lambda run: cell(run, "beats postgres", 2, "measured", 1.6)),
    ("waits for the write", lambda run: cell(run, "writers", 1, "measured", 0.011)),
    ("throughput from 2 s after a crash", lambda run: cell(run, "outage", 0, "ratio", 0.94)),
    ("throughput while connections are ended", lambda run: cell(run, "outage", 1, "ratio", 0.89)),
    (f"{QUIET} no-op jobs of a crew, SQLite", lambda run: cell(run, "crew sqlite", 0, "rota", 19_999)),
    (f"{QUIET} no-op jobs of a crew, PostgreSQL", lambda run: cell(run, "crew postgres", 0, "rota", 9_999)),
    (f"{QUIET} pickup p50, SQLite", lambda run: cell(run, "crew sqlite", 1, "rota", 3.1)),
    (f"{QUIET} pickup p50, PostgreSQL", lambda run: cell(run, "crew postgres", 1, "rota", 6.1)),
    (f"{QUIET} a job of 200 killed", lambda run: cell(run, "recovery", 0, "settled once", False)),
    (f"{QUIET} 1,000 requests/s", lambda run: cell(run, "http", 1, "p99 ms", 51)),
    (f"{QUIET} a change reaches", lambda run: cell(run, "fanout", 0, "reached", 49)),
]


def test_every_target_is_missed_by_one_of_these() -> None:
    assert len(MISSED) == len(JUDGED)
    assert all(what.startswith(begins) for (what, *_), (begins, _) in zip(JUDGED, MISSED, strict=True))


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
    assert found["work off a full queue, SQLite, against the best Redis peer"] is None
    assert found["work off a full queue, SQLite, against the best SQLite peer"] is True


SMALLER: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("cost of a claim, SQLite", lambda run: run["parts"]["depth"]["rows"].pop()),
    ("cost of a claim, PostgreSQL", lambda run: run["parts"]["depth postgres"]["rows"].pop()),
    ("p99 of a crew's claim, PostgreSQL", lambda run: cell(run, "dead", 0, "dead rows", "100,000")),
    (f"{QUIET} a job of 200 killed", lambda run: cell(run, "recovery", 0, "measured", 60)),
]


@pytest.mark.parametrize(("what", "change"), SMALLER, ids=[what for what, _ in SMALLER])
def test_a_smaller_trial_than_the_target_has_says_nothing(what: str, change: Callable[[dict[str, Any]], None]) -> None:
    run = whole()
    change(run)
    assert next(is_met for name, is_met in met(run).items() if name.startswith(what)) is None


def test_of_several_outages_the_worst_counts() -> None:
    run = whole()
    run["parts"]["outage"]["rows"].append({**run["parts"]["outage"]["rows"][0], "ratio": 0.9})
    assert met(run)["throughput from 2 s after a crash of the server, of that before"] is False


def test_a_peer_that_is_missing_is_not_the_best_one() -> None:
    run = whole()
    huey = next(system for system in run["peers"] if system["name"] == "huey")
    huey["figures"], huey["missing"] = {}, "cannot be installed"
    run["peers"].append({**run["peers"][0], "name": "litequeue", "label": "litequeue on SQLite"})
    drain(run, "litequeue on SQLite", 1_000)
    (first, *_) = targets(run)
    assert "litequeue" in first.measured
