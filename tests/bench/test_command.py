"""`rota bench` through the real command: what it tells, and that it leaves nothing behind and touches no one's jobs."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.support.eventually import eventually
from tests.support.processes import processes_in
from tests.support.shell import ROTA, environment
from tests.support.stores import STORES, database_for_tests

if TYPE_CHECKING:
    from pathlib import Path

SHORT = ("--rounds", "1", "--jobs", "120")
MEASURED = ("enqueue, one by one", "enqueue, 1,000 at once", "work off a queue, 2 workers", "pickup, p50")


def bench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [ROTA, "bench", *SHORT, *words]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=110, check=False
    )


def figures(answer: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    assert answer.returncode == 0, answer.stderr
    return {figure["what"]: figure for figure in json.loads(answer.stdout)["figures"]}


def words(store: str) -> list[str]:
    return ["--db", database_for_tests()] if store == "postgres" else []


@pytest.mark.parametrize("store", STORES)
def test_a_short_run_measures_everything_and_tells_how_far_it_is(store: str, tmp_path: Path) -> None:
    answer = bench(tmp_path, "--json", *words(store))
    found = figures(answer)
    assert json.loads(answer.stdout)["store"] == store
    for what in (*MEASURED, "a killed worker's job runs again, p99"):
        assert found[what]["rota"] > 0
    assert found["fsync of a page, p50"]["rota"] is None and found["fsync of a page, p50"]["raw"] > 0
    one = found["enqueue, one by one"]
    assert one["ratio"] == pytest.approx(one["rota"] / one["raw"])
    assert "round 1 of 1: pickup" in answer.stderr


def test_it_leaves_nothing_and_never_opens_the_database_it_is_beside(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    database = shop / "rota.db"
    database.write_bytes(b"not a database, and not to be opened")
    figures(bench(tmp_path, "--json", "--db", str(database)))
    assert database.read_bytes() == b"not a database, and not to be opened"
    assert [path.name for path in shop.iterdir()] == ["rota.db"]
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]


@pytest.mark.postgres
def test_it_leaves_no_schema_on_a_server(tmp_path: Path) -> None:
    url = database_for_tests()
    before = schemas(url)
    figures(bench(tmp_path, "--json", "--db", url))
    assert schemas(url) == before


def schemas(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'rota')").fetchall()
    return {name for (name,) in found}


def test_stopped_in_the_midst_of_a_crew_it_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    words = [ROTA, "bench", "--rounds", "1", "--jobs", "2000"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "pickup" not in process.stderr.readline():
            assert process.poll() is None
        eventually(lambda: bool(processes_in(tmp_path, "orchestrator")), within=30)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert process.returncode == 130
    eventually(lambda: not processes_in(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_people_get_a_table(tmp_path: Path) -> None:
    answer = bench(tmp_path)
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert lines[2].split() == ["MEASURED", "UNIT", "ROTA", "SPREAD", "RAW", "LIMIT", "RATIO"]
    assert any(line.startswith("pickup, p99") for line in lines)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    answer = bench(tmp_path, "--db", str(tmp_path / "missing" / "rota.db"))
    assert answer.returncode == 2
    assert f"{tmp_path / 'missing'}, which cannot be made" in answer.stderr


def test_an_http_api_is_no_database_to_measure(tmp_path: Path) -> None:
    answer = bench(tmp_path, "--db", "http://127.0.0.1:1")
    assert answer.returncode == 2
    assert "run it where the database is" in answer.stderr
