"""A process of a crew that is killed or stopped when it reaches a named point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.crews import POINTS
from tests.support.eventually import eventually

if TYPE_CHECKING:
    import signal
    from pathlib import Path

    from tests.support.crews import Crew


def strike(crew: Crew, point: str, number: signal.Signals, nth: int, word: str) -> Path:
    """Let processes of this crew watch for the point. Returns the file that appears when one has reached it."""
    file = crew.folder / "struck"
    crew.env["PYTHONPATH"] = str(POINTS)
    crew.env["ROTA_TEST_POINT"] = f"{point} {number.name} {nth} {word} {file}"
    return file


def struck_by(file: Path) -> int:
    """Return the process that reached the point."""
    return int(eventually(lambda: file.exists() and file.read_text()))
