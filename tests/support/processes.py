"""Fresh Python processes that run a few lines and communicate over their pipes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rota.process.host import is_stopped
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.store import Store

OPEN = """
import sys
from rota.settings import Settings
from rota.store.jobs.enqueue import NewJob
from rota.store.open import open_store
"""

# Another tool's transaction, which does not queue for the database as rota's do.
LOCK_WITHOUT_QUEUEING = """
import sqlite3
stranger = sqlite3.connect(sys.argv[1], isolation_level=None)
stranger.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
input()
"""


@contextmanager
def python(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start an interpreter that runs `code`. It is ended with the block."""
    command = [sys.executable, "-c", OPEN + code, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def output(process: subprocess.Popen[str], timeout: float = 60) -> str:
    """Return what the process printed, once it ended with exit code 0."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out.strip()


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def say(process: subprocess.Popen[str], text: str = "go") -> None:
    """Write a line to its stdin."""
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def processes_in(folder: Path, words: str = "") -> list[int]:
    """Return the processes whose working folder is inside this one and whose command line has these words."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                here, line = os.readlink(entry / "cwd"), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if here.startswith(str(folder)) and words.encode() in line:
                found.append(int(entry.name))
    return found


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def spent(pid: int) -> float:
    """Return the processor time of a process so far, in seconds."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stop_between_writes(pid: int, store: Store) -> None:
    """Send SIGSTOP at a moment at which the process does not hold the write lock, so that others can go on writing."""
    with store.write(exclusive=True):
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: is_stopped(pid))
