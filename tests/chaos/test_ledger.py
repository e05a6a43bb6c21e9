"""The ledger process keeps every line, whatever happens to the program that wrote it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rota.core.errors import RotaError
from rota.lab.chaos.ledger import LEDGER, LedgerWriter
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Started:
    """A ledger in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ledger"
        self.socket = str(folder / "sock")
        words = [sys.executable, "-m", "rota.lab.chaos.ledger", str(self.file), self.socket]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.writer = LedgerWriter(self.process.stdout, self.process.stdin)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def whats(self) -> list[str]:
        return [line["what"] for line in self.lines()]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path)
    yield started
    with started.process:
        started.process.kill()


WORKER = """
import os, sys
from rota.lab.chaos.ledger import LEDGER, LedgerWriter
writer = LedgerWriter.connect(sys.argv[1])
writer.write("up", pid=os.getpid(), worker=sys.argv[2], slot="s")
"""
COMMAND = """
import os, sys
from rota.lab.chaos.ledger import LEDGER, LedgerWriter
writer = LedgerWriter.connect(sys.argv[1])
writer.write("start", pid=os.getpid(), worker="w", job=1, token=7, own=True)
"""
DIES_UNANSWERED = """
writer._writer.write(b'{"what": "start", "job": 1, "token": 1, "worker": "w"}\\n')
writer._writer.flush()
os._exit(0)
"""


def test_a_line_is_in_the_file_before_it_is_answered(ledger: Started) -> None:
    for n in range(20):
        at = ledger.writer.write("offered", numbers=[n])
        assert ledger.lines()[-1] == {"at": at, "what": "offered", "numbers": [n]}


def test_the_end_of_a_worker_becomes_a_line(ledger: Started) -> None:
    ledger.writer.write("offered", numbers=[])
    subprocess.run([sys.executable, "-c", WORKER, ledger.socket, "worker-a"], check=True)
    eventually(lambda: ledger.whats() == ["offered", "up", "gone"])
    assert ledger.lines()[-1]["worker"] == "worker-a"


def test_the_end_of_a_command_becomes_a_line_of_its_own(ledger: Started) -> None:
    ledger.writer.write("offered", numbers=[1])
    subprocess.run([sys.executable, "-c", COMMAND, ledger.socket], check=True)
    eventually(lambda: ledger.whats() == ["offered", "start", "over"])
    _, start, over = ledger.lines()
    assert (over["token"], over["worker"], over["pid"]) == (start["token"], start["worker"], start["pid"])


def test_a_line_of_a_program_that_dies_before_the_answer_is_written_and_the_ledger_goes_on(ledger: Started) -> None:
    ledger.writer.write("offered", numbers=[])
    for n in range(20):
        command = [sys.executable, "-S", "-c", WORKER + DIES_UNANSWERED, ledger.socket, f"worker-{n}"]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    eventually(lambda: ledger.whats() == ["offered", *["up", "start", "gone"] * 20])
    assert ledger.writer.write("offered", numbers=[1]) >= ledger.lines()[0]["at"]


def test_the_ledger_ends_with_its_standard_input(ledger: Started) -> None:
    ledger.writer.write("offered", numbers=[])
    assert ledger.process.stdin is not None
    ledger.process.stdin.close()
    assert ledger.process.wait(30) == 0


def test_a_writer_whose_ledger_is_gone_raises(ledger: Started) -> None:
    ledger.writer.write("offered", numbers=[])
    ledger.process.kill()
    ledger.process.wait()
    with pytest.raises(RotaError, match="the ledger is gone"):
        ledger.writer.write("offered", numbers=[])
    assert ledger.process.stdin is not None
    with pytest.raises(BrokenPipeError):
        ledger.process.stdin.close()


def test_the_ledger_has_the_beginning_and_the_end_of_a_bash_loop(ledger: Started) -> None:
    """Bash cannot keep a connection open: a process that watches it does."""
    ledger.writer.write("offered", numbers=[])  # once this is answered it listens
    env = {**os.environ, LEDGER: ledger.socket, "ROTA_WORKER_ID": "worker-looploop", "ROTA_SLOT": "loop:0"}
    loop = subprocess.Popen(["sleep", "600"])
    watch = subprocess.Popen([sys.executable, "-m", "rota.lab.chaos.programs", "life", str(loop.pid)], env=env)
    try:
        eventually(lambda: ledger.whats() == ["offered", "up"])
        ledger.writer.write("thaw", worker="worker-looploop")
        assert ledger.whats() == ["offered", "up", "thaw"] and watch.poll() is None, (
            "the loop lives, so the connection must stay open"
        )
        loop.kill()
        eventually(lambda: ledger.whats() == ["offered", "up", "thaw", "gone"])
    finally:
        loop.kill()
        loop.wait()
        watch.wait()
    assert [line["pid"] for line in ledger.lines() if "pid" in line] == [loop.pid] * 2
