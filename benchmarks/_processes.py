"""Whole processes, timed from start to end, in turn with one another."""

from __future__ import annotations

import subprocess
import sys
import time

BARE = (sys.executable, "-c", "pass")


def seconds(*command: str) -> float:
    """How long a command takes; it must succeed."""
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def output(*command: str) -> str:
    """What a command prints; not timed."""
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
