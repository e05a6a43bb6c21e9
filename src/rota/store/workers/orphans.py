"""Workers whose orchestrator is gone: their claims move to leases of their own, and each looks after itself."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core import slot as slots
from rota.core import worker as workers
from rota.core.claim import ORPHANED, Returned
from rota.core.orchestrator import LEASE
from rota.core.worker import Dead
from rota.store import ownership
from rota.store.claims import settle
from rota.store.engine import locks
from rota.store.engine.rows import to_job, to_worker
from rota.store.engine.transaction import retry_conflicts
from rota.store.maintenance import tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rota.core.claim import Ending
    from rota.core.job import Job
    from rota.store.claims.exchange import Settled
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store
    from rota.store.workers.death import Death

    Kept = tuple[int, int, str]


class Orphans:
    """The port for the helper of an orphaned worker."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retry_conflicts
    def begin(
        self, worker: str, in_hand: Collection[int], outcomes: Sequence[Settled], checkpoints: Sequence[Kept] = ()
    ) -> frozenset[int]:
        """Settle what the worker had told, give back what it had not started, and let the tokens in hand go on.

        Those that still hold: none when the worker counts as dead, and not one whose job is someone else's.
        """
        with self._store.write(worker) as tx:
            ownership.worker(self._store, worker)
            locks.worker(tx, worker)
            row = tx.one("worker.get", id=worker)
            for job_id, token, checkpoint in checkpoints:
                tx.execute("orphan.checkpoint", worker=worker, id=job_id, token=token, checkpoint=checkpoint)
            for settled in outcomes:
                self._settle(tx, worker, settled)
            if row is None or to_worker(row).status not in workers.LIVE:
                return frozenset()
            held = [to_job(row) for row in tx.execute("claim.held_by", worker=worker)]
            for job in held:
                if job.token not in in_hand:
                    self._end(tx, job, Returned())
            move_to_lease(tx, worker)
            return frozenset(in_hand) & {job.token for job in held}

    @retry_conflicts
    def renew(self, worker: str, claims: Sequence[tuple[int, int]]) -> frozenset[int]:
        """A beat and a renewal in one, of claims as `(job, token)`; the tokens that still hold."""
        with self._store.write(worker) as tx:
            ownership.worker(self._store, worker)
            if not tx.execute("worker.heartbeat", id=worker, now=tx.now, counted=1, metadata=None):
                return frozenset()
            more = {"worker": worker, "lease_expires_at": tx.now + LEASE}
            held = {token for job, token in claims if tx.execute("orphan.renew", id=job, token=token, **more)}
            return frozenset(held)

    @retry_conflicts
    def keep_checkpoint(self, worker: str, kept: Kept) -> None:
        """Keep it for the next attempt, if the claim still holds."""
        job_id, token, checkpoint = kept
        with self._store.write(worker) as tx:
            ownership.worker(self._store, worker)
            tx.execute("orphan.checkpoint", worker=worker, id=job_id, token=token, checkpoint=checkpoint)

    @retry_conflicts
    def settle(self, worker: str, settled: Settled) -> None:
        """Report what became of the job in hand; a claim that was lost changes nothing."""
        with self._store.write(worker) as tx:
            ownership.worker(self._store, worker)
            self._settle(tx, worker, settled)

    @retry_conflicts
    def end(self, death: Death, last: Sequence[Settled] = ()) -> None:
        """The worker is gone: its last reports, its certificate, its claims back and its slot empty, all at once."""
        worker = death.worker_id
        with self._store.write(worker) as tx:
            ownership.worker(self._store, worker)
            ownership.slots(self._store, [death.slot])
            locks.worker(tx, worker)
            row = tx.one("worker.get", id=worker)
            for settled in last:
                self._settle(tx, worker, settled)
            if not death.asked:
                tick.mark_dead(self._store, tx, worker, Dead(death.reason, death.text), death)
            elif tick.deregister(self._store, tx, worker, ORPHANED) >= 0:
                _certify(tx, death, to_worker(row).slot if row else None)
            for (slot,) in tx.execute("orphan.empty_slot", worker=worker, now=tx.now):
                tx.changed("slot", "move", slot, status=slots.EMPTY, worker=None)

    def _settle(self, tx: Transaction, worker: str, settled: Settled) -> None:
        """Settle a claim of this worker; whoever speaks for one has no say in another's."""
        job_id, token, outcome = settled
        job = locks.job(tx, job_id)
        if job and job.status == jobs.ACTIVE and (job.token, job.worker_id) == (token, worker):
            self._end(tx, job, outcome)

    def _end(self, tx: Transaction, job: Job, how: Ending) -> None:
        settle.end_claim(tx, job, how, self._store.settings.backoff, self._store.chance())


def move_to_lease(tx: Transaction, worker: str) -> None:
    """Let a worker and its claims hang on no orchestrator any more. Whoever comes second changes nothing."""
    if tx.execute("orphan.take_leave", worker=worker, now=tx.now, interval=LEASE // 2, check_at=tx.now + LEASE):
        tx.execute("orphan.take_leases", worker=worker, lease=LEASE, lease_expires_at=tx.now + LEASE)
        tx.changed("worker", "orphan", worker)


def _certify(tx: Transaction, death: Death, slot: str | None) -> None:
    """The certificate of one that left in peace."""
    known = {"worker": death.worker_id, "slot": slot, "reason": death.reason, "text": death.text}
    names = ("exit_code", "signal", "sent_by", "usage", "last_frame", "stderr_tail")
    tx.execute("worker.certify", now=tx.now, job=None, **known, **{name: getattr(death, name) for name in names})
