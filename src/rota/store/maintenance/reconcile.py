"""Reconcile the store: run all maintenance that is due, then look for what should not be there at all.

A second run changes nothing; a live claim is never taken; several at once change nothing twice.
"""

from __future__ import annotations

from rota.core import job as jobs
from rota.core.claim import ORPHANED, Released
from rota.core.record import Record
from rota.core.times import SECOND
from rota.store.claims import settle
from rota.store.engine.rows import scalar, to_job
from rota.store.engine.transaction import SHARDS
from rota.store.jobs import dependencies
from rota.store.jobs.dependencies import WaitingJob
from rota.store.maintenance.tick import TickResult, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store

BLOCKED_PER_PASS = 5000
LEAST = 1_000_000
FASTEST = 100_000  # claims a second, more than any store can make


class Reconciled(Record):
    """What was found and repaired."""

    dead_workers_found: int
    expired_claims_released: int
    orphaned_jobs_recovered: int
    orphaned_claims_released: int
    stale_states_fixed: int


class _OnlyAPlan(Exception):
    """Undoes the transaction of a plan."""


def reconcile(store: Store, plan: bool = False) -> Reconciled:
    """Do all that is due and repair all that is wrong, in bounded passes; with `plan`, only count it."""
    total = TickResult()
    if plan:
        try:
            with store.write("plan", exclusive=True) as tx:
                total = _everything(store, tx)
                raise _OnlyAPlan
        except _OnlyAPlan:
            pass
    else:
        with store.write(exclusive=True) as tx:
            tx.execute("number.set", name="blocked_cursor", value=0)
            tx.execute("tally.gather", from_shard=SHARDS)
            tx.execute("metric.gather", from_shard=SHARDS)
        while True:
            with store.write(exclusive=True) as tx:
                found = _pass(store, tx)
            total = total + found
            if not found.full:
                break
    return Reconciled(
        total.dead_workers_found,
        total.expired_claims_released,
        total.orphaned_jobs_recovered,
        total.orphaned_claims_released,
        total.stale_states_fixed,
    )


def raise_numbers(store: Store) -> int:
    """After a restore, skip as many job ids and tokens as can have been drawn since the last event; return how many."""
    newest = store.events.newest(limit=1)
    with store.write(exclusive=True) as tx:
        since = tx.now - newest[-1].at if newest else 0
        left_out = max(LEAST, FASTEST * since // SECOND)
        for name in ("job", "token"):
            tx.execute("number.leave_out", name=name, count=left_out)
        tx.changed("store", "restore", "numbers", left_out=left_out, by=tx.actor)
    return left_out


def _everything(store: Store, tx: Transaction) -> TickResult:
    tx.execute("number.set", name="blocked_cursor", value=0)
    total = _pass(store, tx)
    while total.full:
        total = total + _pass(store, tx)
    return total


def _pass(store: Store, tx: Transaction) -> TickResult:
    """Run one bounded pass."""
    result = run(store, tx)
    claims = _orphaned_claims(store, tx)
    jobs_recovered, more = _stuck_jobs(tx)
    states = _stale_workers(tx)
    full = result.full or more or bool(claims or states)
    return result + TickResult(
        orphaned_jobs_recovered=jobs_recovered, orphaned_claims_released=claims, stale_states_fixed=states, full=full
    )


def _orphaned_claims(store: Store, tx: Transaction) -> int:
    """Release live claims whose worker is gone or was never registered, unspent."""
    rows = tx.execute("claim.orphaned", most=256)
    for row in rows:
        settle.end_claim(tx, to_job(row), Released(reason=ORPHANED), store.settings.backoff, store.chance())
    return len(rows)


def _stuck_jobs(tx: Transaction) -> tuple[int, bool]:
    """Unblock jobs that wait for others although none of those is open; a bounded number per pass."""
    after = scalar(tx.execute("number.get", name="blocked_cursor"))
    blocked = list(map(WaitingJob._make, tx.execute("job.blocked_from", after=after, most=BLOCKED_PER_PASS)))
    more = len(blocked) == BLOCKED_PER_PASS
    tx.execute("number.set", name="blocked_cursor", value=blocked[-1].id if more else 0)
    free = [job for job in blocked if not job.waits]
    dependencies.unblock(tx, jobs.UNBLOCK, free)
    return len(free), more


def _stale_workers(tx: Transaction) -> int:
    """Repair workers that are shown busy and hold nothing, or idle and hold something."""
    rows = tx.execute("worker.stale", most=256)
    for (id,) in rows:
        tx.execute("worker.settled", id=id, succeeded=0, failed=0, error=None, now=tx.now)
        tx.changed("worker", "mend", id)
    return len(rows)
