"""The lease under which a crew holds all its claims: renewed in time; when it cannot be, handlers are warned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import orchestrator as orchestrators
from rota.core.errors import RotaError
from rota.core.frames import codec as frames
from rota.core.orchestrator import RENEW_EVERY, standing
from rota.core.state_machine import check
from rota.orchestrator import store_thread as urgency
from rota.orchestrator.maintenance import NEVER, now
from rota.process.host import since_boot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.core.times import Instant
    from rota.orchestrator.store_thread import StoreThread
    from rota.orchestrator.worker_process import WorkerProcess
    from rota.process.log import Say
    from rota.store.store import Store


class Lease:
    """Renews one orchestrator's row. Its age counts from the start of the last good renewal, sleep of the host too."""

    def __init__(
        self,
        store_thread: StoreThread,
        children: Callable[[], Iterable[WorkerProcess]],
        say: Say,
        given_up: Callable[[RotaError], None],
    ) -> None:
        self._store_thread = store_thread
        self._children = children
        self._say = say
        self._given_up = given_up
        self._id = 0
        self._is_under_way = False
        self._again = False
        self.renewed_at: Instant = 0
        self.due: Instant = NEVER
        self.status: str = orchestrators.STARTING
        self.acknowledged = 0

    def begin(self, id: int, began: Instant, at: Instant) -> None:
        """Start renewing. The row was inserted at some time after `began`."""
        self._id, self.renewed_at, self.due = id, began, at + RENEW_EVERY

    def move(self, verb: str, status: str) -> None:
        """Move the orchestrator to another state, and write that with a renewal."""
        check(orchestrators.MOVES, self.status, verb, status)
        self.status = status
        self.renew(now())

    def tick(self, at: Instant, end: Callable[[WorkerProcess, str], None]) -> None:
        """Renew when it is time, and look how old the last renewal is."""
        if not self._id:
            return
        if at >= self.due:
            self.renew(at)
        state = standing(self.renewed_at, since_boot())
        if state == orchestrators.HELD:
            return
        for child in self._children():
            if not child.lost:
                child.lost = True
                child.send(frames.LOST, {})
                self._say("told that the lease could not be renewed for 10s", *child.names)
            if state == orchestrators.ENDED and any(held.fenced for held in child.running):
                end(child, "its queue must never overlap, and the lease could not be renewed for 12s")

    def renew(self, at: Instant) -> None:
        """Renew now: to acknowledge a directive, or to show another state."""
        self.due = at + RENEW_EVERY
        self._again = self._is_under_way
        if self._is_under_way or not self._id:
            return
        self._is_under_way = True
        id, answered, status = self._id, self.acknowledged, self.status
        spoke = [(child.worker_id, child.health.last_frame_at) for child in self._children()]

        def renew(store: Store) -> Instant:
            began = since_boot()  # of the try that succeeds, however often the store was away before
            at = now()
            heard = sorted((worker, max(0, at - last_frame_at)) for worker, last_frame_at in spoke)
            store.orchestrators.renew(id, answered, status, heard)
            return began

        self._store_thread.ask(urgency.RENEWAL, renew, self._renewed)

    def end(self) -> None:
        """Renew no more."""
        self._id, self.due = 0, NEVER

    def _renewed(self, answer: Instant | RotaError) -> None:
        self._is_under_way = False
        if isinstance(answer, RotaError):
            if self._id:
                self._given_up(answer)
            return
        self.renewed_at = answer
        for child in self._children():
            if child.lost or any(held.fenced for held in child.held):
                child.lost = False
                child.send(frames.RENEWED, {"at": answer})
        if self._again:
            self.renew(self.due)
