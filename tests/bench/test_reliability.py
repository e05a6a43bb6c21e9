"""Storms are put together by database, and whatever one of them found is told and decides the exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.__main__ import ROOT
from benchmarks.reliability import pooled
from docs.pages.performance import GAP
from docs.pages.reliability import page_of
from tests.bench.storms import run, storm
from tests.support.shell import environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crew

STORMS = (storm(1), storm(2), storm(1, "postgres"))
LOST: dict[str, Any] = {"lost": 1, "violations": [{"invariant": "I5", "text": "job 7 is still ready"}]}
FOUND = [
    (storm(3, **LOST), "seed 3 on SQLite: I5: job 7 is still ready"),
    (storm(3, committed_more_than_once=1), "seed 3 on SQLite: a job was lost or committed twice"),
    (storm(3, "postgres", false_deaths=["worker-1"]), "seed 3 on PostgreSQL: false death: worker-1"),
    ({"seed": 4, "options": {"store": "sqlite", "minutes": 1}, "error": "no room"}, "seed 4 on SQLite: no room"),
]


def chaos(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.reliability.chaos", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )


def test_counts_are_summed_by_database_and_times_are_pooled() -> None:
    rows = dict(pooled.counted(STORMS))
    assert rows["storms, each with a seed of its own"] == ["2", "1"]
    assert rows["minutes of storm in all"] == ["1", "0.5"]
    assert rows["jobs accepted"] == ["200", "100"] and rows["fault: kill busy"] == ["16", "8"]
    assert rows["longest stall"] == ["902 ms", "901 ms"]
    assert dict(pooled.mended(STORMS, "sqlite"))["kill busy"][1] == "20 / 20 / 20 (4)"
    assert dict(pooled.mended(STORMS, "postgres"))["kill busy"][1] == "20 / 20 / 20 (2)"
    assert dict(pooled.mended(STORMS, "sqlite"))["kill orchestrator"][0] == "–"


@pytest.mark.parametrize(("found", "told"), FOUND, ids=["lost", "twice", "false death", "error"])
def test_a_storm_that_found_anything_is_told_and_decides_the_exit_code(
    found: dict[str, Any], told: str, tmp_path: Path
) -> None:
    assert pooled.bad([*STORMS, found]) == [told]
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run(*STORMS, found)))
    answer = chaos("--from", str(file))
    assert answer.returncode == 1 and told in answer.stdout
    assert told in page_of({"chaos": run(*STORMS, found)})


def test_storms_that_found_nothing_end_with_zero_and_files_are_put_together(tmp_path: Path) -> None:
    for name, each in (("a", storm(1)), ("b", storm(1, "postgres"))):
        (tmp_path / name).write_text(json.dumps(run(each)))
    answer = chaos("--from", str(tmp_path / "a"), "--from", str(tmp_path / "b"), "--json", str(tmp_path / "all"))
    assert answer.returncode == 0, answer.stderr
    assert "nothing was lost, committed twice, falsely killed or violated" in answer.stdout
    assert len(json.loads((tmp_path / "all").read_text())["storms"]) == 2


def test_a_real_storm_is_blown_on_each_database(tmp_path: Path) -> None:
    words = ("--minutes", "0.02", "--jobs", "30", "--workers", "1", "--kills", "1", "--json", str(tmp_path / "told"))
    answer = chaos("--seed", "5", *words)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    told = json.loads((tmp_path / "told").read_text())
    assert [(each["seed"], each["options"]["store"]) for each in told["storms"]] == [(5, "sqlite"), (5, "postgres")]
    assert [each["jobs"]["accepted"] for each in told["storms"]] == [30, 30]


@pytest.mark.parametrize("words", [("--minutes", "0"), ("--seeds", "0")])
def test_what_makes_no_sense_is_refused(words: tuple[str, ...]) -> None:
    answer = chaos(*words)
    assert answer.returncode == 2 and f"{words[0]} must be" in answer.stderr


def test_the_page_has_every_gap_filled_before_anything_was_measured_and_after() -> None:
    assert not GAP.search(page_of({})) and "Not measured yet." in page_of({})
    text = page_of({"chaos": run(*STORMS)})
    assert not GAP.search(text) and "No storm found anything." in text
    assert "| in all storms | SQLite | PostgreSQL |" in text and "| **lost** | 0 | 0 |" in text
