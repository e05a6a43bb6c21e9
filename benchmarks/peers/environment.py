"""An environment of its own for each system, made once and kept beside the project's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.peers.places import CannotRun

if TYPE_CHECKING:
    from benchmarks.peers.table import System

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, ".venv-peers")


def python(system: System) -> str:
    """The interpreter that has this system installed at its pinned versions."""
    if not system.requirements:
        return sys.executable
    venv = os.path.join(FOLDER, f"{system.module}-{system.on.lower()}")
    stamp, wanted = os.path.join(venv, "stamp"), f"{venv} {sys.version} {' '.join(system.requirements)}"
    if _read(stamp) != wanted:
        uv = os.path.join(os.path.dirname(sys.executable), "uv")
        shutil.rmtree(venv, ignore_errors=True)
        _run([uv, "venv", "--python", sys.executable, venv])
        _run([uv, "pip", "install", "--python", os.path.join(venv, "bin", "python"), *system.requirements])
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(wanted)
    return os.path.join(venv, "bin", "python")


def _run(words: list[str]) -> None:
    try:
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise CannotRun(f"cannot be installed: {problem}") from problem
    if ran.returncode:
        raise CannotRun(f"cannot be installed: {(ran.stderr.strip().splitlines() or ['no reason given'])[-1]}")


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
