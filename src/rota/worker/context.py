"""What a handler may know and say while it runs: pass it on by a parameter named `ctx`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core import frame as frames
from rota.core.ids import run_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.worker.reporter import Reporter


class Context:
    """One run of one job."""

    def __init__(
        self, reporter: Reporter, worker_id: str, job: dict[str, Any], is_stopping: Callable[[], bool]
    ) -> None:
        self._reporter = reporter
        self._is_stopping = is_stopping
        self.job_id: int = job["id"]
        self.token: int = job["token"]
        self.worker_id = worker_id
        self.attempt: int = job["attempt"]
        self.state: dict[str, Any] = {}

    @property
    def run_id(self) -> str:
        return run_id(self.token)

    @property
    def stopping(self) -> bool:
        """Whether the worker was asked to stop: a long handler may look, and leave off early."""
        return self._is_stopping()

    def log(self, message: str) -> None:
        """Say something in the orchestrator's log."""
        self._reporter.report(frames.LOG, {"message": message, "run": self.run_id})
