"""A slot in an orchestrator's hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.slot import HTTP

if TYPE_CHECKING:
    from rota.core.times import Instant
    from rota.orchestrator.worker_process import WorkerProcess


class SupervisedSlot:
    """How a slot stands, the worker in it, when the next one starts, and whether it was scaled away.

    `orphan` is a worker of a killed orchestrator that finishes its job here; the slot is filled once it has.
    """

    def __init__(self, name: str, queue: str, state: str) -> None:
        self.name = name
        self.queue = queue
        self.state = state
        self.child: WorkerProcess | None = None
        self.orphan: str | None = None
        self.start_at: Instant | None = None
        self.wanted = True
        self.shown: str | None = None  # the health that readers of the store were last told

    @property
    def takes_jobs(self) -> bool:
        """Whether there is a worker in it, and not the HTTP API."""
        return self.queue != HTTP
