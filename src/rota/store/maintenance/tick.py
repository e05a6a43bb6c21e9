"""The maintenance tick: promote due jobs, take back lapsed claims, judge silent workers. Bounded, safe to repeat."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core import orchestrator as orchestrators
from rota.core import worker as workers
from rota.core.claim import Died, Lapsed, Released, Returned
from rota.core.death import DEADLINE, LOST, OPERATOR
from rota.core.orchestrator import LEASE, Pulse
from rota.core.record import Record
from rota.core.worker import Dead, Holding, judge
from rota.store.claims import settle
from rota.store.engine import locks
from rota.store.engine.rows import scalar, to_job, to_worker
from rota.store.jobs import dependencies
from rota.store.jobs.dependencies import WaitingJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.claim import Ending
    from rota.core.job import Job
    from rota.core.times import Duration, Instant
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store
    from rota.store.workers.death import Death

MOST = 256


class TickResult(Record):
    """What a tick did; `full` if it stopped at its bound, so that there may be more."""

    dead_workers_found: int = 0
    expired_claims_released: int = 0
    orphaned_jobs_recovered: int = 0
    orphaned_claims_released: int = 0
    stale_states_fixed: int = 0
    promoted: int = 0
    full: bool = False

    def __add__(self, other: TickResult) -> TickResult:
        counts = {name: getattr(self, name) + getattr(other, name) for name in self._fields if name != "full"}
        return TickResult(**counts, full=other.full)


def anything_due(store: Store) -> bool:
    """Return whether any maintenance is due. Reads indexes only."""
    return bool(scalar(store.database.execute("tick.due", store.database.clock())))


def next_due(store: Store) -> Duration | None:
    """Return after how long something is due; None if nothing is in sight.

    Within a transaction, so that it is the same moment for all.
    """
    ((due, lapse, check, orchestrator_lapse, unknown_kind, due_by_wall, schedule),) = store.database.execute(
        "tick.next", store.database.clock()
    )
    by_clock, by_wall = (due, lapse, check, orchestrator_lapse, unknown_kind), (due_by_wall, schedule)
    now, wall = store.database.moment()
    waits = [instant - now for instant in by_clock if instant is not None]
    waits += [instant - wall for instant in by_wall if instant is not None]
    return max(0, min(waits)) if waits else None


def run(store: Store, tx: Transaction, most: int = MOST) -> TickResult:
    """Run the maintenance that is due, at most `most` items of each kind."""
    return run_due(store, tx, most) if is_due(tx) else TickResult()


def is_due(tx: Transaction) -> bool:
    """Return whether any maintenance is due. Reads indexes only."""
    return bool(scalar(tx.execute("tick.due", **tx.clock)))


def run_due(store: Store, tx: Transaction, most: int = MOST) -> TickResult:
    """Run a maintenance tick without checking first whether anything is due."""
    rippled = _ripples(tx)
    promoted = _promote(tx, most)
    fired = _fire(store, tx, most)
    expired = _expire(store, tx, most)
    grace_from = grace(tx)
    lost = _lost_orchestrators(store, tx, grace_from)
    looked_at, dead = _judge(store, tx, grace_from, most)
    given_up = _give_up_unknown(store, tx, most)
    full = most in (expired, looked_at, fired, given_up) or promoted >= most or rippled >= dependencies.CHUNK
    return TickResult(dead + lost, expired, promoted=promoted + rippled, full=full)


def _ripples(tx: Transaction) -> int:
    return sum(dependencies.ripple(tx, job, after) for job, after in tx.execute("dependency.ripples", most=1))


def _promote(tx: Transaction, most: int) -> int:
    """Promote scheduled jobs that are due, by the store's clock or by the wall clock (decision 6)."""
    count = 0
    for due_wall, now in ((0, tx.now), (1, tx.wall)):
        due = list(map(WaitingJob._make, tx.execute("job.due", due_wall=due_wall, now=now, most=most)))
        # Of those that fall due at one instant the oldest is the first, also where a limit lets only some begin.
        due.sort(key=lambda job: (job.due_at, job.id))
        free = [
            job
            for job in locks.free_scheduled(tx, due)
            if not (job.waits and dependencies.waits_again(tx, jobs.DUE, job.id, job.queue, jobs.SCHEDULED))
        ]
        dependencies.unblock(tx, jobs.DUE, free)
        count += len(due)
    return count


def _fire(store: Store, tx: Transaction, most: int) -> int:
    """Fire due schedules. The code for it is loaded only then: hot verbs run this module (decision 5)."""
    rows = tx.execute("schedule.due", wall=tx.wall, most=most)
    if rows:
        from rota.store.maintenance.schedules import fire_due

        fire_due(store, tx, rows)
    return len(rows)


def _give_up_unknown(store: Store, tx: Transaction, most: int) -> int:
    """Fail jobs that have waited too long for a worker that knows their kind. The code is loaded only then."""
    rows = tx.execute("job.overdue_unknown", now=tx.now, most=most)
    if rows:
        from rota.store.jobs.unknown_kinds import give_up

        give_up(store, tx, [to_job(row) for row in rows])
    return len(rows)


def _expire(store: Store, tx: Transaction, most: int) -> int:
    rows = tx.execute("claim.lapsed", now=tx.now, most=most)
    lapsed = [job for job in locks.free_claims(tx, [to_job(row) for row in rows]) if job.is_lapsed(tx.now)]
    for job in sorted(lapsed, key=lambda job: job.token or 0, reverse=True):
        # The latest claims first: their jobs may wait for those of earlier ones.
        settle.end_claim(tx, job, _lapse(tx, job), store.settings.backoff, store.chance())
    return len(rows)


def _lapse(tx: Transaction, job: Job) -> Ending:
    """Decide how a lapsed claim ends: an orphan with an older claim never started this one, unless it runs several."""
    row = tx.one("worker.get", id=job.worker_id)
    holder = to_worker(row) if row else None
    if holder is None or holder.slot is None:
        return Lapsed()
    if holder.concurrency > 1:
        return Lapsed(crowded=not job.isolated)
    return Lapsed() if to_job(tx.execute("claim.held_by", worker=holder.id)[0]).token == job.token else Returned()


def grace(tx: Transaction, silence: Duration = LEASE // 2) -> Instant:
    """Return since when silence counts: later than it began if the store itself was away (decision 7).

    Ask before the pulse is renewed.
    """
    row = tx.one("orchestrator.pulse")
    assert row is not None
    pulse = Pulse(*row)
    if pulse.needs_grace(tx.now, silence) and tx.execute("orchestrator.live"):
        tx.execute("orchestrator.grace", graced=pulse.at, now=tx.now)
        return tx.now
    return pulse.grace_from


def _lost_orchestrators(store: Store, tx: Transaction, grace_from: Instant) -> int:
    """Mark the workers of orchestrators that stopped renewing as dead; return how many."""
    count = 0
    for id, lease_expires_at, hostname, pid in tx.execute("orchestrator.live"):
        if not orchestrators.is_lapsed(lease_expires_at, grace_from, tx.now):
            continue
        if not locks.lapsed_orchestrator(tx, id, lease_expires_at):
            continue
        tx.execute("orchestrator.end", id=id)
        tx.changed("orchestrator", "lapse", str(id), hostname=hostname, pid=pid)
        for (worker,) in sorted(tx.execute("worker.of_orchestrator", orchestrator=id)):
            mark_dead(store, tx, worker, Dead(LOST, f"orchestrator {pid} on {hostname} stopped renewing its lease"))
            count += 1
    return count


def _judge(store: Store, tx: Transaction, grace_from: Instant, most: int) -> tuple[int, int]:
    """Judge external workers that may be overdue; return how many were judged and how many of them are dead."""
    rows, dead = tx.execute("worker.to_judge", now=tx.now, most=most), 0
    for id, beat, interval in rows:
        held = [to_job(row) for row in tx.execute("claim.held_by", worker=id)]
        if {job.queue for job in held} - locks.free_queues(tx, (job.queue for job in held)):
            continue
        verdict = judge(beat, interval, _holding(held), grace_from, tx.now)
        if isinstance(verdict, Dead):
            mark_dead(store, tx, id, verdict)
            dead += 1
        else:
            tx.execute("worker.look_again", id=id, check_at=verdict.look_again_at)
    return len(rows), dead


def _holding(held: list[Job]) -> Holding | None:
    if not held:
        return None
    newest = held[-1]
    assert newest.claimed_at is not None
    return Holding(newest.claimed_at, newest.lease_expires_at or 0)


def mark_dead(store: Store, tx: Transaction, worker: str, verdict: Dead, death: Death | None = None) -> bool:
    """Mark a worker dead, write its certificate and take its claims back.

    One in a slot was running its oldest claim, an external one all of them.

    A worker that runs several jobs at a time was running all of them, and none is charged (decision 13). A worker that
    was ended because its time to finish was over has not died. Return false, changing nothing, if it was gone already.
    """
    locks.worker(tx, worker)
    row = tx.one("worker.get", id=worker)
    known = to_worker(row) if row else None
    if known is not None and known.desired == workers.END:
        return deregister(store, tx, worker, workers.STOP) >= 0
    if not tx.execute("worker.end", id=worker, status=workers.DEAD):
        return False
    held = [to_job(row) for row in tx.execute("claim.held_by", worker=worker)]
    in_hand = held[0].id if held else None
    names = ("exit_code", "signal", "sent_by", "usage", "last_frame", "stderr_tail")
    certificate = {name: getattr(death, name) if death else None for name in names}
    tx.execute(
        "worker.certify",
        worker=worker,
        slot=known and known.slot,
        now=tx.now,
        reason=verdict.reason,
        text=verdict.text,
        job=in_hand,
        **certificate,
    )
    tx.changed("worker", workers.DIE, worker, reason=verdict.reason, text=verdict.text)
    one_by_one = known is not None and known.slot is not None
    crowded = known is not None and known.concurrency > 1 and len(held) > 1
    for job in held:
        started = crowded or not one_by_one or job.id == in_hand
        if verdict.reason in (DEADLINE, OPERATOR):
            # The job that it was ended for has been settled already; the others are not to blame (decision 13).
            started = False
        died = Died(f"{worker}: {verdict.text}", started, crowded)
        settle.end_claim(tx, job, died, store.settings.backoff, store.chance())
    return True


def deregister(store: Store, tx: Transaction, worker: str, reason: str) -> int:
    """Deregister a worker and release what it holds, unspent; return how many claims, or -1 if it was gone."""
    locks.worker(tx, worker)
    if not tx.execute("worker.end", id=worker, status=workers.STOPPED):
        return -1
    held = tx.execute("claim.held_by", worker=worker)
    for row in held:
        settle.end_claim(tx, to_job(row), Released(reason=reason), store.settings.backoff, store.chance())
    tx.changed("worker", workers.LEAVE, worker)
    return len(held)
