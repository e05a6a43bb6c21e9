"""Manual claims: taken, renewed, released and settled by external workers. Every write names the token."""

from __future__ import annotations

from rota.core import claim as claims
from rota.core import job as jobs
from rota.core.claim import Captured, Lapsed, Released
from rota.core.errors import Conflict, Contended, NotFound, NothingReady, Refused, RotaError, Stale
from rota.core.ids import MOST, run_id, token_of, whole
from rota.core.queue import allow
from rota.core.source import is_internal
from rota.core.times import LONGEST, format_instant
from rota.store import ownership, source_outcomes
from rota.store.claims import settle
from rota.store.claims.ready_scan import PickedJob
from rota.store.engine import locks
from rota.store.engine.rows import to_claim, to_job, to_run
from rota.store.engine.transaction import retry_conflicts
from rota.store.jobs import dependencies
from rota.store.maintenance import tick
from rota.store.metrics import count_stale
from rota.store.workers.registration import present

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.core.claim import Claim, Outcome, Run
    from rota.core.job import Job, Needed
    from rota.core.queue import Allowance, Queue
    from rota.core.times import Duration
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store


class Claims:
    """The port for manual claims."""

    def __init__(self, store: Store) -> None:
        self._store: Store = store

    @retry_conflicts
    def claim(
        self, job_id: int, worker_id: str | None = None, lease: Duration | None = None, person: str | None = None
    ) -> Claim:
        """Claim this job; of concurrent callers one wins. Without a worker, for the caller's user and host.

        `person` says who that is, where the caller is elsewhere.
        """
        with self._store.begin() as tx:
            worker = present(self._store, tx, worker_id, person)
            locks.queue_of_job(tx, job_id)
            tick.run(self._store, tx)
            job = self._wanted(tx, job_id)
            if job.is_lapsed(tx.now):
                settle.end_claim(tx, job, Lapsed(), self._store.settings.backoff, self._store.chance())
                job = dependencies.job_of(tx, job_id)
            refusal = self._refusal(tx, job)
            if refusal is None:
                return self._take(tx, job, worker, lease)
        raise refusal

    @retry_conflicts
    def take(
        self,
        worker_id: str | None = None,
        queue: str | None = None,
        lease: Duration | None = None,
        person: str | None = None,
    ) -> Claim:
        """Claim the best ready job of one queue or of any.

        Raises:
            NothingReady: No job can be claimed now.
        """
        with self._store.begin() as tx:
            worker = present(self._store, tx, worker_id, person)
            rows = locks.queues(tx, None if queue is None else [queue])
            tick.run(self._store, tx)
            best: list[Job] = []
            for each in self._store.queues.open_ones(queue, rows):
                if _allowance(tx, each).granted:
                    best += [to_job(row) for row in tx.execute("job.ready", queue=each.name, most=1)]
            for peeked in sorted(best, key=lambda job: (-job.priority, job.id)):
                for job in map(PickedJob._make, tx.execute("claim.pick", queue=peeked.queue, most=1)):
                    return self._take(tx, dependencies.job_of(tx, job.id), worker, lease, job.drawn_token)
        raise NothingReady("nothing is ready" + (f" in queue {queue}" if queue else ""))

    @count_stale
    @retry_conflicts
    def renew(self, claim: Claim, lease: Duration | None = None) -> Claim:
        """Extend the lease of a manual claim, never shortening it. A supervised worker's claim needs no renewal.

        Args:
            claim: The claim to extend.
            lease: How long it lasts from now on. Defaults to the lease it was claimed with.

        Returns:
            The claim with its new `lease_expires_at`.

        Raises:
            Stale: The token is no longer current, or the lease has already run out.
        """
        with self._store.write() as tx:
            ownership.claim(self._store, claim.job_id, claim.token)
            job = dependencies.job_of(tx, claim.job_id)
            until = claims.renewed(job, self._lease(job.lease if lease is None else lease), tx.now)
            row = tx.one("claim.renew", until=until, now=tx.now, **_key(claim))
            if row is None:
                if job.status == jobs.ACTIVE and job.token == claim.token and job.orchestrator is not None:
                    return to_claim(job)
                if job.token == claim.token and job.is_lapsed(tx.now):
                    ended = format_instant(job.lease_expires_at or 0)
                    raise Stale(f"the lease on job {job.id} ran out at {ended}: settle it while nobody takes it")
                raise _lost(tx, claim)
            self._heartbeat(tx, job.worker_id)
            tx.changed("job", "renew", str(claim.job_id), token=claim.token, until=until)
            return to_claim(to_job(row))

    @count_stale
    @retry_conflicts
    def checkpoint(self, claim: Claim, value: Any) -> None:
        """Keep what the next attempt should know: anything JSON can hold, at most 256 KiB.

        Raises:
            Stale: The token is no longer current.
        """
        from rota.store.jobs import payload  # no hot verb needs it

        text = payload.encode(value, "checkpoint")
        with self._store.write() as tx:
            ownership.claim(self._store, claim.job_id, claim.token)
            self._heartbeat_of_holder(tx, claim, tx.one("claim.checkpoint", checkpoint=text, **_key(claim)))

    @count_stale
    @retry_conflicts
    def capture(self, claim: Claim, transcript_path: str | None, stderr_path: str | None) -> None:
        """Keep where the code behind this claim writes its output, and which access token reported it.

        Only the holder may.
        """
        access = self._store.access
        named = {"transcript_path": transcript_path, "stderr_path": stderr_path, "by": access and access.id}
        with self._store.write() as tx:
            ownership.claim(self._store, claim.job_id, claim.token)
            self._heartbeat_of_holder(tx, claim, tx.one("claim.capture", **_key(claim), **named))

    def release(self, claim: Claim, note: str | None = None) -> None:
        """Release the job unfinished; no attempt is spent."""
        self.settle(claim, Released(note))

    @count_stale
    @retry_conflicts
    def settle(self, claim: Claim, outcome: Outcome) -> bool:
        """Settle a claim with its outcome. Settling again with the token that settled changes nothing and is no error.

        Returns:
            Whether this settled it.
        """
        store = self._store
        with store.write() as tx:
            if source_outcomes.is_gone(tx, claim.job_id, claim.token):
                return False
            job = dependencies.job_of(tx, claim.job_id)
            ownership.claim(store, claim.job_id, claim.token)
            held = job.status == jobs.ACTIVE and job.token == claim.token
            if held and settle.end_claim(tx, job, outcome, store.settings.backoff, store.chance()):
                self._heartbeat(tx, job.worker_id)
                return True
            row = tx.one("claim.run", token=claim.token)
            run = to_run(row) if row else None
            if run is None or run.job_id != job.id or run.verb != claims.verb_of(outcome):
                raise _lost(tx, claim)
            return False

    @retry_conflicts
    def finish_borrowed(self, job_id: int, token: int, result: str | None) -> None:
        """Settle a supervised worker's claim as done in its handler's transaction; `Stale` if lost (decision 18).

        Its orchestrator goes on meanwhile: only the job is held, and its queue where that has limits.
        """
        store = self._store
        with store.write() as tx:
            if source_outcomes.is_gone(tx, job_id, token):
                return
            job = locks.job(tx, job_id, guarded=False)
            held = job is not None and job.status == jobs.ACTIVE and job.token == token
            if job is None or not held:
                row = tx.one("claim.run", token=token)
                if row is None or to_run(row).verb != jobs.FINISH:
                    raise Stale(f"job {job_id} is not held with token {token} any more: nothing was settled")
                return
            settle.end_claim(tx, job, claims.Done(result), store.settings.backoff, store.chance())
            tx.execute("server.end_soon")

    def held(self, job_id: int, worker_id: str | None = None, token: int | None = None) -> Claim:
        """Return the live claim on a job by its worker or token.

        Raises:
            Stale: It is no longer theirs.
        """
        job = self._store.jobs.get(job_id)
        worker = worker_id or (None if token else self._store.workers.implicit_id())
        if job.status == jobs.ACTIVE and (token is None or job.token == token) and worker in (None, job.worker_id):
            return to_claim(job)
        raise Stale(claims.stale_message(job, worker or f"token {token}"))

    def is_settled_by(self, job_id: int, worker_id: str | None) -> bool:
        """Return whether this worker itself settled its last claim on the job, and nobody has claimed the job since."""
        job = self._store.jobs.get(job_id)
        worker = worker_id or self._store.workers.implicit_id()
        rows = self._store.database.execute("claim.last_run_of", {"job": job_id, "worker": worker})
        own = (claims.COMPLETED, claims.FAILED, claims.RELEASED)
        return any(run.status in own and run.token == job.token for run in map(to_run, rows))

    def runs(self, job_id: int, most: int = MOST) -> list[Run]:
        """Return the runs of a job, or the last `most` of them, oldest first."""
        rows = self._store.database.execute("claim.last_runs", {"job": job_id, "most": most})
        return [to_run(row) for row in reversed(rows)]

    def run(self, id: str) -> Run:
        """Return one run by its id."""
        rows = self._store.database.execute("claim.run", {"token": token_of(id)})
        if not rows:
            raise NotFound(f"there is no run {id}: a run is written when its claim ends")
        return to_run(rows[0])

    def results(self, job_id: int, token: int) -> list[Needed]:
        """Return the results of the jobs that one depends on, for the current or an earlier holder of its claim."""
        ownership.claim(self._store, job_id, token)
        return self._store.jobs.results(job_id)

    def captured(self, job_id: int, run: str | None = None) -> Captured:
        """Return where the newest run of a job, or the one named, wrote its output; a live one included."""
        from rota.store.jobs import output  # no hot verb needs it

        self._store.jobs.get(job_id)
        rows = self._store.database.execute("claim.captures", {"job": job_id})
        found = [output.known(self._store.database.runs, _captured(row)) for row in rows]
        if not found:
            raise NotFound(f"job {job_id} has not run yet")
        if run is None:
            return found[-1]
        for each in found:
            if each.run_id == run:
                return each
        raise NotFound(f"job {job_id} has no {run}: its last run is {found[-1].run_id}")

    def _wanted(self, tx: Transaction, id: int) -> Job:
        """Lock a job to be claimed, together with its last claim if that has lapsed."""
        job = locks.job(tx, id, guarded=False)
        if job is None:
            raise NotFound(f"there is no job {id}")
        if job.is_lapsed(tx.now) and not locks.free_claims(tx, [job]):
            raise Contended(f"someone is busy with the claim on job {id}")
        return job

    def _take(self, tx: Transaction, job: Job, worker: str, lease: Duration | None, token: int | None = None) -> Claim:
        lease = self._lease(lease)
        token = token or tx.draw_many("token", 1)[0]
        until = tx.now + (min(lease, job.timeout) if job.timeout else lease)
        tx.execute(
            "claim.take",
            id=job.id,
            token=token,
            worker=worker,
            orchestrator=None,
            now=tx.now,
            lease=lease,
            lease_expires_at=until,
        )
        queue = dependencies.queue_of(tx, job.queue)
        if queue.rate is not None:
            tx.execute("queue.spend_rate", queue=queue.name, rate_next_at=_allowance(tx, queue).rate_next_at)
        tx.moved(jobs.CLAIM, job.queue, jobs.READY, jobs.ACTIVE, [job.id], worker=worker, token=token)
        tx.execute("worker.claimed", id=worker, job=job.id, now=tx.now)
        if job.source is not None:
            source_outcomes.top_up(tx, [job.source])
        return claims.Claim(job.id, token, worker, tx.now, until)

    def _refusal(self, tx: Transaction, job: Job) -> RotaError | None:
        """Return why this job cannot be claimed now; None if it can."""
        if is_internal(job.queue):
            return Refused(f"job {job.id} is rota's own: only a worker of source {job.source}'s app can run it")
        if job.status == jobs.ACTIVE:
            until = f" until {format_instant(job.lease_expires_at)}" if job.lease_expires_at else ""
            return Conflict(f"job {job.id} is claimed by {job.worker_id}{until}")
        if job.status in jobs.FINAL:
            return Conflict(f"job {job.id} is {job.status} already")
        if job.status != jobs.READY:
            return Refused(f"job {job.id} is {job.status}: `rota why {job.id}` says for what")
        if not self._store.queues.open_ones(job.queue):
            return Refused(f"queue {job.queue} is paused")
        queue = dependencies.queue_of(tx, job.queue)
        allowance = _allowance(tx, queue)
        if not allowance.granted:
            limit = f"its rate of {queue.rate}" if allowance.limit == "rate" else f"its {queue.concurrency} at once"
            return Refused(f"queue {job.queue} is at {limit}")
        return None

    def _lease(self, lease: Duration | None) -> Duration:
        if lease is None:
            return self._store.settings.lease
        return whole("a lease in microseconds", lease, 1, LONGEST)

    def _heartbeat_of_holder(self, tx: Transaction, claim: Claim, row: Row | None) -> None:
        """Count the write as a heartbeat of the worker that it answered with; refuse a claim that it did not find."""
        if row is None:
            raise _lost(tx, claim)
        (worker,) = row
        self._heartbeat(tx, worker)

    def _heartbeat(self, tx: Transaction, worker: str | None) -> None:
        tx.execute("worker.heartbeat", id=worker, now=tx.now, counted=0, metadata=None)


def _allowance(tx: Transaction, queue: Queue) -> Allowance:
    """Return how many more claims the queue's limits allow, at most one."""
    return allow(queue, tx.running(queue.name) if queue.concurrency is not None else 0, 1, tx.now)


def _captured(row: Row) -> Captured:
    """Return where a run's output is; of paths reported over HTTP, only that there are some."""
    token, transcript, stderr, by, is_live = row
    if by is not None and (transcript, stderr) != (None, None):
        return Captured(run_id(token), None, None, bool(is_live), is_remote=True)
    return Captured(run_id(token), transcript, stderr, bool(is_live))


def _key(claim: Claim) -> dict[str, int]:
    """Return the parameters by which every write names a claim (decision 4)."""
    return {"id": claim.job_id, "token": claim.token}


def _lost(tx: Transaction, claim: Claim) -> Stale:
    return Stale(
        claims.stale_message(dependencies.job_of(tx, claim.job_id), f"{claim.worker_id} with token {claim.token}")
    )
