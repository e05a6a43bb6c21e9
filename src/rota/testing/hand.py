"""In place of a pipe: what a handler says here is kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Hand:
    """One claim in the calling process; `database` is where its job is, if it is anywhere."""

    def __init__(self, worker_id: str, database: str | None, checkpoint: str | None = None) -> None:
        self.worker_id = worker_id
        self.database = database
        self.folder = os.getcwd()
        self.stopping = False
        self.lost = False
        self.recovering: float | None = None
        self.cancels: dict[int, Callable[[], None]] = {}
        self.sessions: set[int] = set()
        self.logs: list[str] = []
        self.told: list[tuple[float, float | None, str | None]] = []
        self.checkpoint = checkpoint

    def renew(self, job: Mapping[str, Any]) -> None:
        """Nobody else wants the claim."""

    def log(self, job: Mapping[str, Any], text: str) -> None:
        self.logs.append(text)

    def progress(self, job: Mapping[str, Any], done: float, total: float | None, note: str | None) -> None:
        self.told.append((done, total, note))

    def keep(self, job: Mapping[str, Any], checkpoint: str) -> None:
        self.checkpoint = checkpoint

    def recover(self, seconds: float | None) -> None:
        self.recovering = seconds
