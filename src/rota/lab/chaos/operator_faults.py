"""What operators do while a storm blows: pause a queue, cancel a job, settle a claim that they have lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core.claim import Done
from rota.core.errors import Conflict, Refused, RotaError, Stale
from rota.core.times import MILLISECOND, SECOND
from rota.lab.chaos.plan import CANCEL, PAUSE, PLANNED, seconds
from rota.store.directives import PATIENCE, unacknowledged

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.claim import Claim
    from rota.core.job import Job
    from rota.lab.chaos.ledger import LedgerWriter
    from rota.lab.chaos.plan import Fault
    from rota.store.store import Store

    Later = Callable[[float, Callable[[], object]], None]

POLL = 0.01
# A handler that began before a directive was acknowledged may write its line into the ledger a moment after it.
LEDGER_DELAY = 0.2
SHORT_LEASE = 100 * MILLISECOND
LATE_WITHIN = 10.0


class OperatorFaults:
    """Acts on a crew through its store, and writes into the ledger once the crew has acknowledged it.

    `do_later` calls a function after a number of seconds.
    """

    def __init__(self, store: Store, ledger_writer: LedgerWriter, do_later: Later) -> None:
        self._store = store
        self._ledger_writer = ledger_writer
        self._do_later = do_later

    def inject(self, fault: Fault) -> bool:
        """Do what was planned; return false if there is nothing to act on."""
        if fault.kind == PAUSE:
            return self._pause(fault)
        waiting = [job for state in (jobs.BLOCKED, jobs.READY) for job in self._newest(state)]
        if not waiting:
            return False
        if fault.kind == CANCEL:
            return self._cancel(waiting[int(fault.choice * len(waiting))])
        return self._claim_for_too_long([job for job in waiting if job.status == jobs.READY])

    def _newest(self, state: str) -> list[Job]:
        return [job for job in self._store.jobs.list(state, limit=1000) if job.queue in PLANNED]

    def _pause(self, fault: Fault) -> bool:
        queues = sorted(PLANNED)
        queue = queues[int(fault.choice * len(queues))]
        try:
            paused = self._store.queues.pause(queue)
        except RotaError:
            return False
        if paused:
            directive, deadline = self._store.orchestrators.last_directive(), time.monotonic() + PATIENCE
            self._do_later(POLL, lambda: self._await_pause(queue, directive, deadline, fault))
        return bool(paused)

    def _await_pause(self, queue: str, directive: int, deadline: float, fault: Fault) -> None:
        """Note the pause once every orchestrator has acknowledged it: from then on, nothing of the queue may start.

        A pause that is not acknowledged in time is taken back and proves nothing.
        """
        if not unacknowledged(self._store, directive):
            self._do_later(LEDGER_DELAY, lambda: self._ledger_writer.write("paused", queue=queue))
            self._do_later(LEDGER_DELAY + seconds(fault.lasts), lambda: self._resume(queue))
        elif time.monotonic() > deadline:
            self._resume(queue)
        else:
            self._do_later(POLL, lambda: self._await_pause(queue, directive, deadline, fault))

    def _resume(self, queue: str) -> None:
        self._ledger_writer.write("resumed", queue=queue)
        self._store.queues.resume(queue)

    def _cancel(self, job: Job) -> bool:
        self._ledger_writer.write("called off", job=job.id)
        try:
            self._store.jobs.cancel(job.id)
        except Conflict:  # it has ended meanwhile
            return False
        self._do_later(LEDGER_DELAY, lambda: self._ledger_writer.write("cancelled", job=job.id))
        return True

    def _claim_for_too_long(self, ready: list[Job]) -> bool:
        """Claim a job, let the lease expire, and settle it once another worker has it: that must be refused."""
        ready.sort(key=lambda job: (job.payload or {}).get("ms", 0))
        if not ready:
            return False
        worker = self._store.workers.register("late", every=60 * SECOND)
        self._ledger_writer.write("visitor", worker=worker.id)
        try:
            claim = self._store.claims.claim(ready[-1].id, worker.id, SHORT_LEASE)
        except (Conflict, Refused):
            self._store.workers.deregister(worker.id)
            return False
        deadline = time.monotonic() + LATE_WITHIN
        self._do_later(seconds(SHORT_LEASE), lambda: self._settle_late(claim, deadline))
        return True

    def _settle_late(self, claim: Claim, deadline: float) -> None:
        job = self._store.jobs.get(claim.job_id)
        taken = job.token != claim.token and job.status == jobs.ACTIVE
        if not taken and job.status not in jobs.FINAL and time.monotonic() < deadline:
            self._do_later(POLL, lambda: self._settle_late(claim, deadline))
            return
        try:
            if job.token != claim.token or job.status != jobs.ACTIVE:
                self._store.claims.settle(claim, Done())
                self._ledger_writer.write("late", job=claim.job_id, token=claim.token)
        except Stale:
            self._ledger_writer.write("late refused")
        self._store.workers.deregister(claim.worker_id)
