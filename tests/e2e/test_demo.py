"""The demo of bash loops is a promise too: it runs, tells the truth, and leaves nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import processes_in
from tests.support.stores import STORES, exports

EXAMPLES = Path(__file__).parents[2] / "examples" / "loops"


def play(folder: Path, *script: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TMPDIR": str(folder)}
    return subprocess.run(
        ["bash", *script],
        check=False,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
    )


def test_the_demo_shows_a_killed_workers_job_come_back_and_leaves_nothing_running(tmp_path: Path) -> None:
    played = play(tmp_path, str(EXAMPLES / "demo.sh"))

    assert played.returncode == 0, played.stdout + played.stderr
    assert "All 8 jobs are done, each committed once" in played.stdout
    assert "runs again after" in played.stdout
    (folder,) = tmp_path.glob("rota-demo.*")
    assert str(folder) in played.stdout.splitlines()[-1]
    assert processes_in(tmp_path) == []


def test_the_demo_says_so_and_fails_when_the_work_does_not_get_done(tmp_path: Path) -> None:
    copy = tmp_path / "loops"
    copy.mkdir()
    for name in ("demo.sh", "capture.sh"):
        text = (EXAMPLES / name).read_text().replace("PATIENCE=60", "PATIENCE=5")
        (copy / name).write_text(text)
        (copy / name).chmod(0o755)
    (copy / "model.sh").write_text("#!/bin/sh\nexit 1\n")
    (copy / "model.sh").chmod(0o755)
    played = play(tmp_path, str(copy / "demo.sh"))

    assert played.returncode == 1
    assert "NOT as promised" in played.stdout


@pytest.mark.both_stores
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("loop", ["minimal.sh", "capture.sh", "parallel.sh"])
def test_each_example_works_off_a_queue_and_leaves_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: str, kind: str
) -> None:
    for name, value in exports(kind, tmp_path).items():
        monkeypatch.setenv(name, value)
    script = f"""
        rota init && rota add one --payload '{{"seconds": 0}}' && rota add two --after 1 --payload '{{"seconds": 0}}'
        LEDGER={tmp_path}/ledger BEAT=5s '{EXAMPLES / loop}' '{EXAMPLES / "model.sh"}' & loop=$!
        rota wait 1 2 --for done --timeout 60s && kill -TERM $loop && wait $loop
        rota worker list --all --json | jq -e 'all(.status == "stopped")'
    """
    played = play(tmp_path, "-c", script)

    assert played.returncode == 0, played.stdout + played.stderr
    assert (tmp_path / "ledger").read_text().split() == ["1", "2"]
