"""A real storm over a real crew, as a person runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.lab.chaos.plan import (
    CRASH,
    CUT,
    FATAL,
    FREEZE_CREW,
    HOLD,
    KILL_API,
    KILL_ORCHESTRATOR,
    OPERATOR_FAULTS,
    WORKERS,
    Options,
    draw,
)
from tests.support.eventually import eventually
from tests.support.shell import ROTA, environment
from tests.support.stores import STORES, database_for_tests
from tests.support.tiers import times

if TYPE_CHECKING:
    from pathlib import Path

MINUTES = times(1, 2)  # a crew stands still past its lease in each
JOBS = 1000 * MINUTES
STORE_FAULTS_OF = {"sqlite": (HOLD,), "postgres": (CUT, CRASH)}


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A storm whose folder is made below this one."""
    pipe = subprocess.PIPE
    env = environment(TMPDIR=str(folder))
    return subprocess.Popen([ROTA, "chaos", *words], cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", STORES)
def test_a_storm_loses_nothing_and_commits_nothing_twice(store: str, tmp_path: Path) -> None:
    """With every kind of worker and every kind of fault: of workers, of the store, by operators, and frozen crews."""
    words = ["--store", store, "--seed", "11", "--jobs", str(JOBS), "--minutes", str(MINUTES), "--json"]
    with start(tmp_path, *words) as process:
        out, err = process.communicate(timeout=500)
    assert process.returncode == 0, out + err
    told = json.loads(out)
    assert told["options"]["store"] == store
    assert told["violations"] == [] and told["false_deaths"] == []
    assert (told["lost"], told["committed_more_than_once"], told["claims_left"]) == (0, 0, 0)
    assert told["jobs"]["offered"] == told["jobs"]["accepted"] == JOBS
    assert told["jobs"]["failed_unexpectedly"] == 0 and told["jobs"]["done_from_the_source"] == JOBS // 10
    planned = draw(Options(11, store, jobs=JOBS, minutes=MINUTES, own_server=store == "postgres"))
    broken, missed = Counter(told["faults"]), Counter(told["faults_without_a_victim"])
    assert broken + missed == Counter(fault.kind for fault in planned.faults)
    assert set(told["by_kind_of_worker"]) == set(WORKERS.values())
    assert all(each["begun"] for each in told["by_kind_of_worker"].values()), told["by_kind_of_worker"]
    # Whether a worker is busy at that moment, or a job can be cancelled, is left to chance.
    assert set(broken) >= {KILL_ORCHESTRATOR, FREEZE_CREW, KILL_API, *STORE_FAULTS_OF[store]}
    assert set(broken) & {*OPERATOR_FAULTS}
    assert sum(broken[kind] for kind in FATAL) >= 10 * MINUTES
    assert {"I15", "I29", "I30"} <= {*told["invariants_checked"]}
    assert not any(told["left_behind"].values())
    assert list(tmp_path.iterdir()) == []


def test_a_storm_on_a_given_server_leaves_no_schema(tmp_path: Path) -> None:
    words = ["--db", database_for_tests(), "--seed", "5", "--jobs", "20", "--minutes", "0.02", "--kills", "1"]
    with start(tmp_path, *words, "--workers", "1", "--json") as process:
        out, err = process.communicate(timeout=110)
    assert process.returncode == 0, out + err
    assert json.loads(out)["options"] | {"store": "postgres", "own_server": False} == json.loads(out)["options"]
    assert list(tmp_path.iterdir()) == [] == schemas_of_storms()


@pytest.mark.parametrize("store", STORES)
def test_a_storm_over_http_loses_nothing_though_the_api_is_killed_too(store: str, tmp_path: Path) -> None:
    words = ["--over", "http", "--seed", "11", "--jobs", "300", "--minutes", "0.25", "--workers", "3", "--kills", "12"]
    words += ["--db", database_for_tests()] if store == "postgres" else []
    with start(tmp_path, *words, "--json") as process:
        out, err = process.communicate(timeout=150)
    assert process.returncode == 0, out + err
    told = json.loads(out)
    assert told["violations"] == [] and told["false_deaths"] == []
    assert (told["lost"], told["committed_more_than_once"], told["claims_left"]) == (0, 0, 0)
    assert told["jobs"]["accepted"] == 300 and told["jobs"]["failed_unexpectedly"] == 0
    assert told["faults"]["kill API"] >= 1 and told["faults"]["kill orchestrator"] >= 1
    assert not any(told["left_behind"].values())
    assert list(tmp_path.iterdir()) == []


def schemas_of_storms() -> list[str]:
    with psycopg.connect(database_for_tests()) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'rota_chaos_')")
        return [name for (name,) in found.fetchall()]


def test_compare_reports_which_share_of_the_undisturbed_pace_was_kept(tmp_path: Path) -> None:
    words = ["--compare", "--seed", "5", "--jobs", "60", "--minutes", "0.05", "--kills", "3", "--workers", "2"]
    with start(tmp_path, *words) as process:
        out, err = process.communicate(timeout=110)
    assert process.returncode == 0, out + err
    (row,) = [line for line in out.splitlines() if line.startswith("jobs a second")]
    kept = float(row.split(", ")[1].split()[0])
    assert kept > 0 and row.endswith("of the pace without faults")
    (row,) = [line for line in out.splitlines() if line.startswith("from ready to done")]
    assert "(without faults " in row
    assert err.count("seed 5: 60 jobs, 0 faults") == 1 and err.count("seed 5: 60 jobs, 3 faults") == 1


def test_the_table_names_the_seed_and_says_that_nothing_is_violated(tmp_path: Path) -> None:
    with start(
        tmp_path, "--seed", "5", "--jobs", "20", "--minutes", "0.02", "--kills", "0", "--workers", "1"
    ) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    rows = {line[:34].strip(): line[34:].strip() for line in out.splitlines()}
    assert rows["seed"] == "5"
    assert (rows["lost"], rows["committed more than once"], rows["invariants violated"]) == ("0", "0", "none")
    assert "seed 5: 20 jobs, 0 faults" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_storm_that_is_interrupted_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    with start(tmp_path, "--seed", "5", "--jobs", "500", "--minutes", "1") as process:
        eventually(lambda: any((folder / "ledger").exists() for folder in tmp_path.iterdir()))
        (folder,) = tmp_path.iterdir()
        eventually(lambda: '"start"' in (folder / "ledger").read_text())
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _is_in(pid, folder)]


def test_invalid_options_are_refused(tmp_path: Path) -> None:
    for words, told in (
        (["--minutes", "0"], "--minutes must be more than 0"),
        (["--jobs", "none"], "--jobs: 'none' is not a whole number"),
        (["--workers", "0"], "--workers: '0' is too few"),
        (["--store", "mongo"], "--store: 'mongo' is not one of sqlite"),
    ):
        with start(tmp_path, *words) as process:
            _, err = process.communicate(timeout=30)
        assert process.returncode == 2 and told in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def _is_in(pid: str, folder: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd").startswith(str(folder))
    except OSError:
        return False
