"""A soak says flat only of what is flat, and its exit code is what its table says."""

from __future__ import annotations

import json
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.__main__ import ROOT
from benchmarks.reliability.flat import FEWEST, MEASURES, RULE, judged
from benchmarks.reliability.soak import SAMPLES, STORES, astray, is_good
from docs.pages.reliability import page_of
from rota.lab.chaos.plan import COMMANDS, FUNCTIONS, REMOTE
from tests.bench.storms import run
from tests.support.shell import environment
from tests.support.stores import make_store, rows
from tests.support.work import add, finish

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.crew

MEMORY, WORKER = "memory of the orchestrator", "memory of a worker"
DESCRIPTORS, AT_WORK = "descriptors of the orchestrator", "descriptors of a worker of commands"
CAPTURES, LOG, MEDIAN, WORST = "captures", "log written", "pickup, p50", "pickup, p99"
SEEDS = range(100)
GOOD: dict[str, Any] = {
    "lost": 0,
    "astray": 0,
    "captures_left": 0,
    "old": {FUNCTIONS: 9},
    "stop_code": 0,
    "rows": [{"flat": True}],
}


def verdict(name: str, *series: float) -> Any:
    unit = MEASURES[name].unit
    label = f"{name}, {unit}" if unit else name
    (row,) = [row for row in judged([{name: value} for value in series]) if row["what"] == label]
    return row["flat"]


@pytest.mark.parametrize(
    ("series", "is_flat"),
    [
        ([24] * 12, True),
        ([10, 15, 20, 23, 24, 24, 24, 24, 24, 24, 24, 24], True),  # it warmed up
        ([24, 24, 24, 24, 24, 24, 24, 24, 24.5, 24.5, 24.5, 24.5], True),  # a step that means nothing
        ([24, 24, 24, 24, 24, 24, 24, 24, 90, 24, 24, 24], True),  # one moment
        ([24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46], False),
        ([24, 24, 24, 24, 24, 24, 24, 24, 25, 25, 25, 25], False),
    ],
)
def test_memory_that_grows_is_not_flat(series: list[float], is_flat: bool) -> None:
    assert verdict(MEMORY, *series) is is_flat


def test_pickup_may_be_slower_by_a_quarter_and_its_worst_by_a_half_and_a_little_and_no_more() -> None:
    assert verdict(MEDIAN, *[20] * 8, *[27] * 4) is True
    assert verdict(MEDIAN, *[20] * 8, *[27.1] * 4) is False
    assert verdict(WORST, *[50] * 8, *[85] * 4) is True
    assert verdict(WORST, *[50] * 8, *[85.1] * 4) is False


def test_pickup_is_set_beside_the_first_third_and_memory_beside_the_middle_one() -> None:
    rising = [*range(50, 170, 10)]  # each third is less than a half above the one before
    assert verdict(WORST, *rising) is False
    assert verdict(WORST, *[40] * 4, *[90] * 4, *[40] * 4) is True
    assert verdict(MEMORY, *[20] * 4, *[24] * 8) is True


def a_memory(random: Random, leak: float) -> list[float]:
    """Megabytes; so many more at the end of the run than after its warming up."""
    return [24.6 - 2 * 0.5**look + leak * look / SAMPLES + random.gauss(0, 0.1) for look in range(SAMPLES)]


def a_worker(random: Random, leak: float) -> list[float]:
    """One that is never killed; now and then it holds a large result for a moment."""
    return [15.7 + leak * look / SAMPLES + random.choice((0,) * 9 + (5,)) for look in range(SAMPLES)]


def open_files(random: Random, leak: float) -> list[float]:
    """A few less while a worker is being replaced, or a few more."""
    return [32 + int(leak * look / SAMPLES) + random.choice((0,) * 9 + (-3, 7)) for look in range(SAMPLES)]


def open_at_work(random: Random, leak: float) -> list[float]:
    """Twice as many while a command runs, which is often."""
    return [7 + int(leak * look / SAMPLES) + random.choice((0, 0, 7, 8)) for look in range(SAMPLES)]


def captured(random: Random, leak: float) -> list[float]:
    """Kilobytes, up until they are forgotten; `leak` is the share of them that never is."""
    written, kept = 0.0, 0.0
    series = []
    for look in range(SAMPLES):
        fresh = random.gauss(440, 40)
        written += leak * fresh
        kept = fresh if look % 3 == 0 else kept + fresh
        series.append(written + 4 * 440 + kept)
    return series


def spoken(random: Random, leak: float) -> list[float]:
    """Kilobytes a minute."""
    return [6 + leak * look / SAMPLES + random.gauss(0, 1.5) for look in range(SAMPLES)]


def waited(usual: float) -> Callable[[Random, float], list[float]]:
    """Milliseconds; on a machine with others a third may be a little slower than another, and one look much."""

    def series(random: Random, leak: float) -> list[float]:
        thirds = [random.uniform(1, 1.14) for _ in range(3)]
        noise = [random.lognormvariate(0, 0.15) * random.choice((1,) * 11 + (8,)) for _ in range(SAMPLES)]
        return [usual * thirds[look * 3 // SAMPLES] * noise[look] + leak * look / SAMPLES for look in range(SAMPLES)]

    return series


@pytest.mark.parametrize(
    ("name", "series", "leak"),
    [
        (MEMORY, a_memory, 3.0),
        (WORKER, a_worker, 2.5),
        (DESCRIPTORS, open_files, 12),
        (AT_WORK, open_at_work, 9),
        (CAPTURES, captured, 0.2),
        (LOG, spoken, 25),
        (MEDIAN, waited(20), 25),
        (WORST, waited(60), 150),
    ],
)
def test_a_small_leak_is_found_in_noise_and_noise_alone_is_none(
    name: str, series: Callable[[Random, float], list[float]], leak: float
) -> None:
    assert [seed for seed in SEEDS if verdict(name, *series(Random(seed), 0)) is not True] == []
    assert [seed for seed in SEEDS if verdict(name, *series(Random(seed), leak)) is not False] == []


def test_every_process_is_judged_by_its_memory_and_by_its_descriptors() -> None:
    watched = {name.removeprefix("memory of ") for name in MEASURES if name.startswith("memory of ")}
    assert {name.removeprefix("descriptors of ") for name in MEASURES if name.startswith("descriptors of ")} == watched
    assert {"the remote orchestrator", "a worker", "a worker of commands", "a remote worker"} <= watched


def test_of_too_few_looks_nothing_is_said_and_that_is_not_good() -> None:
    assert verdict(MEMORY, *[24] * (FEWEST - 1)) is None
    assert is_good(GOOD)
    assert not is_good({**GOOD, "rows": judged([{MEMORY: 24.0}])})


@pytest.mark.parametrize(
    "found",
    [
        {"lost": 1},
        {"astray": 1},
        {"captures_left": 1},
        {"old": {FUNCTIONS: 9, REMOTE: None}},  # the one that was spared died
        {"old": {FUNCTIONS: 9, COMMANDS: 0}},  # it had nothing to do
        {"stop_code": 1},
        {"rows": [{"flat": True}, {"flat": False}]},
    ],
)
def test_a_soak_that_found_anything_is_not_good(found: dict[str, Any]) -> None:
    assert not is_good({**GOOD, **found})


def test_a_job_is_astray_that_the_store_has_not_finished_or_neither_kept_nor_forgot(tmp_path: Path) -> None:
    with make_store("sqlite", tmp_path) as store:
        jobs = [add(store, queue=FUNCTIONS) for _ in range(4)]
        for job in jobs[:3]:
            finish(store, job)
        assert astray(store, offered=4, forgotten=0) == 1
        finish(store, jobs[3])
        assert astray(store, offered=4, forgotten=0) == 0
        rows(store, "DELETE FROM run WHERE job = :job", job=jobs[0])
        rows(store, "DELETE FROM job WHERE id = :job", job=jobs[0])
        assert astray(store, offered=4, forgotten=0) == 1
        assert astray(store, offered=4, forgotten=1) == 0


def test_a_record_is_told_with_the_rule_that_it_was_judged_by() -> None:
    row = {"what": "memory", "first third": 1, "middle": 1, "last": 1, "most": 1, "flat": True}
    about = {**run(), "minutes": 6, "rate": 20, "churn": 5, "jobs": 7000, "kills": 70, "lost": 0, "stop_seconds": 0.1}
    earlier = {**about, "rows": [row], "loads": [1, 1, 1], "rule": "Flat meant less."}
    page = page_of({"soak sqlite": {**earlier, "store": "sqlite"}, "soak postgres": {**earlier, "store": "postgres"}})
    assert page.count("Flat meant less.") == 1 and RULE not in page
    assert RULE in page_of({})


@pytest.mark.timeout(240)
def test_a_short_soak_of_both_looks_at_everything_and_its_exit_code_is_its_verdict(tmp_path: Path) -> None:
    words = ["--minutes", "0.15", "--rate", "20", "--churn", "2", "--store", "both", "--json", str(tmp_path / "told")]
    command = [sys.executable, "-m", "benchmarks.reliability.soak", *words]
    answer = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=220, check=False
    )
    runs = json.loads((tmp_path / "told").read_text())
    for told in (runs[f"soak {store}"] for store in STORES):
        assert told["lost"] == 0 and told["astray"] == 0 and told["captures_left"] == 0 and told["stop_code"] == 0, (
            answer.stdout + answer.stderr
        )
        assert told["jobs"] > 100 and told["kills"] >= 2
        assert told["old"].keys() == {FUNCTIONS, COMMANDS, REMOTE} and all(told["old"].values()), told["old"]
        assert len(told["rows"]) == len(MEASURES) and all(row["most"] for row in told["rows"]), told["rows"]
        page = page_of({"soak sqlite": {**told, "machine": run()["machine"]}})
        assert "| memory of the orchestrator, MB |" in page and RULE in page
    assert answer.returncode == (0 if all(map(is_good, runs.values())) else 1)
