"""A soak says flat only of what is flat, and its exit code is what its table says."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.__main__ import ROOT
from benchmarks.reliability.flat import FEWEST, MEASURES, judged
from benchmarks.reliability.soak import is_good
from docs.pages.reliability import page_of
from tests.bench.storms import run
from tests.support.shell import environment

if TYPE_CHECKING:
    from pathlib import Path

MEMORY, LATENCY = "memory of the orchestrator", "pickup, p50"


def verdict(name: str, *series: float) -> Any:
    label = f"{name}, {MEASURES[name][0]}"
    (row,) = [row for row in judged([{name: value} for value in series]) if row["what"] == label]
    return row["flat"]


@pytest.mark.parametrize(
    ("series", "is_flat"),
    [
        ([24] * 12, True),
        ([10, 15, 20, 23, 24, 24, 24, 24, 24, 24, 24, 24], True),  # it warmed up
        ([24, 24, 24, 24, 24, 24, 24, 24, 25, 25, 25, 25], True),  # a step that means nothing
        ([24, 24, 24, 24, 24, 24, 24, 24, 90, 24, 24, 24], True),  # one moment
        ([24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46], False),
        ([24, 24, 24, 24, 24, 24, 24, 24, 27, 27, 27, 27], False),
    ],
)
def test_memory_that_grows_is_not_flat(series: list[float], is_flat: bool) -> None:
    assert verdict(MEMORY, *series) is is_flat


def test_latency_may_double_and_no_more() -> None:
    assert verdict(LATENCY, *[20] * 8, *[39] * 4) is True
    assert verdict(LATENCY, *[20] * 8, *[41] * 4) is False


def test_of_too_few_looks_nothing_is_said_and_that_is_not_good() -> None:
    assert verdict(MEMORY, *[24] * (FEWEST - 1)) is None
    rows = judged([{MEMORY: 24.0}])
    assert not is_good({"lost": 0, "stop_code": 0, "rows": rows})


def test_a_short_soak_looks_at_everything_and_its_exit_code_is_its_verdict(tmp_path: Path) -> None:
    words = ["--minutes", "0.15", "--rate", "20", "--churn", "2", "--json", str(tmp_path / "told")]
    command = [sys.executable, "-m", "benchmarks.reliability.soak", *words]
    answer = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=110, check=False
    )
    told = json.loads((tmp_path / "told").read_text())
    assert told["lost"] == 0 and told["stop_code"] == 0, answer.stdout + answer.stderr
    assert told["jobs"] > 100 and told["kills"] >= 2
    assert len(told["rows"]) == len(MEASURES) and all(row["most"] for row in told["rows"]), told["rows"]
    assert answer.returncode == (0 if all(row["flat"] for row in told["rows"]) else 1)
    page = page_of({"soak sqlite": {**told, "machine": run()["machine"]}})
    assert "| memory of the orchestrator, MB |" in page and "Flat means" in page
