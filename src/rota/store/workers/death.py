"""The death of a watched worker: its certificate, its claims back, and its slot's next start, in one transaction."""

from __future__ import annotations

from rota.core import slot
from rota.core import worker as workers
from rota.core.claim import TIMEOUT, Failed, Returned
from rota.core.death import DEADLINE, RECYCLED, TOO_MANY_ERRORS, charge
from rota.core.record import Record
from rota.store.claims import settle
from rota.store.engine.rows import to_job
from rota.store.maintenance import tick
from rota.store.workers import slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.restart import RestartPolicy
    from rota.core.times import Duration
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store


class Death(Record):
    """What the orchestrator saw of a worker's end. `asked`: it was told to stop; `cut`: its time to finish was over.

    `overdue` are the claims that it was ended for, where that was a deadline; by default the oldest.
    """

    worker_id: str
    slot: str
    reason: str
    text: str
    exit_code: int | None = None
    signal: int | None = None
    asked: bool = False
    cut: bool = False
    sent_by: str | None = None
    usage: str | None = None
    last_frame: str | None = None
    stderr_tail: str | None = None
    overdue: tuple[int, ...] = ()

    @property
    def is_peaceful(self) -> bool:
        """Whether it left as it was told to, so that nothing it held is charged to anyone."""
        return self.asked and (self.exit_code == 0 or self.cut)


def record(store: Store, tx: Transaction, death: Death, policy: RestartPolicy) -> tuple[Duration | None, str | None]:
    """Write it down and decide: after how long the slot starts again, or None and why it does not."""
    if death.is_peaceful:
        tick.deregister(store, tx, death.worker_id, "stop")
        slots.move(tx, death.slot, slot.EMPTY, None, None)
        return 0, None
    held = [to_job(row) for row in tx.execute("claim.held_by", worker=death.worker_id)]
    if death.reason in (TOO_MANY_ERRORS, RECYCLED):  # it left between two jobs: none was in hand
        for job in held:
            settle.end_claim(tx, job, Returned(), store.settings.backoff, store.chance())
        held = []
    if held and death.reason == DEADLINE:
        timed_out = Failed("ran past its time-out", reason=TIMEOUT)
        for job in [job for job in held if job.token in death.overdue] or held[:1]:
            settle.end_claim(tx, job, timed_out, store.settings.backoff, store.chance())
    fresh = tick.mark_dead(store, tx, death.worker_id, workers.Dead(death.reason, death.text), death)
    row = tx.one("slot.get", name=death.slot)
    if row is None:
        return None, "the slot was removed"
    if death.asked or not fresh:  # a death that was asked for, or that is written down already, costs the slot nothing
        slots.move(tx, death.slot, slot.EMPTY, None, None)
        return 0, None
    charged = charge(death.reason, bool(held), held[0].deaths if held else 0)
    history, start_at = slots.to_slot(row).history.after_death(policy, charged, tx.now)
    slots.remember(tx, death.slot, history)
    slots.move(tx, death.slot, slot.FAILED if start_at is None else slot.BACKOFF, None, start_at)
    return (None if start_at is None else start_at - tx.now), history.failure_reason
