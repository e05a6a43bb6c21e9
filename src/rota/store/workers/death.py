"""The death of a supervised worker: its certificate, its claims, and its slot's next start, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from rota.core import slot
from rota.core import worker as workers
from rota.core.claim import TIMEOUT, Failed, Returned
from rota.core.death import DEADLINE, RECYCLED, TOO_MANY_ERRORS, charge
from rota.core.record import Record
from rota.core.slot import GiveUp, Restart
from rota.store.claims import settle
from rota.store.engine.rows import to_job
from rota.store.maintenance import tick
from rota.store.workers import slots

if TYPE_CHECKING:
    from rota.core.slot import RestartPolicy
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store


class Death(Record):
    """A worker's end as its orchestrator saw it. `asked`: it had to stop; `cut`: its time to finish was over.

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
        """Whether it left because it was asked to, so that nothing it held is charged to anyone."""
        return self.asked and (self.exit_code == 0 or self.cut)


def record(store: Store, tx: Transaction, death: Death, policy: RestartPolicy) -> Restart | GiveUp:
    """Record the end of a worker and release its claims; decide whether its slot starts another one, and when."""
    if death.is_peaceful:
        tick.deregister(store, tx, death.worker_id, "stop")
        return _empty(tx, death, slots.find(tx, death.slot), slot.GONE)
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
    place = slots.find(tx, death.slot)
    if place is None:
        return GiveUp("the slot was removed")
    if death.asked or not fresh:  # a death that was asked for, or that is written down already, costs the slot nothing
        return _empty(tx, death, place, slot.DIE)
    charged = charge(death.reason, bool(held), held[0].deaths if held else 0)
    history, decision = place.history.after_death(policy, charged, tx.now)
    slots.remember(tx, death.slot, history)
    match decision:
        case Restart(after):
            slots.move(tx, place, slot.DIE, slot.BACKOFF, start_at=tx.now + after)
        case GiveUp():
            slots.move(tx, place, slot.DIE, slot.FAILED)
        case other:
            assert_never(other)
    return decision


def _empty(tx: Transaction, death: Death, place: slots.Slot | None, verb: str) -> Restart | GiveUp:
    """Empty the slot of a worker whose end is charged to nobody; it may start another one at once."""
    if place is None:
        return Restart(0)
    if place.status == slot.FAILED:
        # Its start was refused, for the slot had been given up: that still stands until somebody resets it.
        return GiveUp(place.history.failure_reason or "the slot was given up")
    slots.move(tx, place, verb if place.worker == death.worker_id else slot.REFUSE, slot.EMPTY)
    return Restart(0)
