"""`ready`, `claim`, `claim:renew`, `claim:release`: what a loop calls on every turn."""

from __future__ import annotations

import os

from rota import documents
from rota.cli.parser import BARE
from rota.cli.types import NOTHING_READY
from rota.core.claim import COMPLETED, FAILED, RELEASED, Claim
from rota.core.errors import BadInput, NothingReady, Stale
from rota.core.times import MINUTE, SECOND, format_instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call
    from rota.core.job import Job
    from rota.store.store import Store

WAIT_FOR_WORK = 5.0
LOOK_AGAIN = 0.5


def ready(call: Call) -> int:
    """Jobs that can be claimed now; or the best of them, claimed."""
    if call["claim"] is not None:
        return _take(call)
    if call["lease"] is not None:
        raise BadInput("--lease goes with --claim: nothing is claimed without it")
    with call.store() as store:
        found = store.jobs.ready(call["queue"], call["limit"] or 10)
        if call.json:
            call.document([documents.job(job) for job in found])
        else:
            from rota.cli.output import job_table

            call.lines(job_table(call, found, store.now()) if found else ["nothing is ready"])
    return 0


def _take(call: Call) -> int:
    with call.store() as store:
        worker = None if call["claim"] == BARE else call["claim"]
        try:
            claim = store.claims.take(worker, call["queue"], call["lease"])
        except NothingReady:
            if call.json:
                call.document([])
            raise
        job = store.jobs.get(claim.job_id)
        if call.json:
            call.document([{**documents.job(job), "claim": documents.claim(claim)}])
        else:
            call.say(f"{_told(claim)}: {job.title}")
    return 0


def claim(call: Call) -> int:
    """Take a job; nothing to take is waited out, so that a loop does not spin."""
    with call.store() as store:
        if call["id"] == NOTHING_READY:
            raise NothingReady(_wait_for_work(store, call["worker"]))
        claim = store.claims.claim(call["id"], call["worker"], call["lease"])
    if call.json:
        call.document(documents.claim(claim))
    else:
        call.say(_told(claim))
    return 0


def renew(call: Call) -> int:
    """Extend a lease."""
    with call.store() as store:
        held = store.claims.held(call["id"], call["worker"] if token(call) is None else None, token(call))
        claim = store.claims.renew(held, call["lease"])
    if call.json:
        call.document(documents.claim(claim))
    else:
        by_itself = claim.lease_expires_at is None
        call.say(
            f"job {claim.job_id} is renewed by its orchestrator"
            if by_itself
            else f"job {claim.job_id} renewed{_until(claim)}"
        )
    return 0


def release(call: Call) -> int:
    """Give a job back; what its own worker has settled needs no giving back."""
    with call.store() as store:
        id, worker, mine = call["id"], call["worker"], token(call)
        settled = False
        try:
            held = store.claims.held(id, None if mine else worker, mine)
            store.claims.release(held, call["note"])
        except Stale:
            settled = _is_settled(store, id, worker, mine)
            if not settled:
                raise
        job = store.jobs.get(id)
    if call.json:
        call.document(documents.job(job))
    else:
        call.say(f"job {job.id} was settled already: it is {job.status}" if settled else f"job {job.id} {job.status}")
    return 0


def token(call: Call) -> int | None:
    """The token that was given, or the environment's when that speaks of the same job."""
    given: int | None = call["token"]
    of_job = os.environ.get("ROTA_JOB_ID")
    if given is not None and os.environ.get("ROTA_CLAIM_TOKEN") == str(given) and of_job and of_job != str(call["id"]):
        return None
    return given


def by_token(job: Job, mine: int) -> Claim:
    """The claim that a token stands for, whether or not it still lives: the store decides."""
    holder = job.worker_id if job.token == mine and job.worker_id else "you"
    return Claim(job.id, mine, holder, job.claimed_at or 0, job.lease_expires_at)


def _is_settled(store: Store, id: int, worker: str | None, mine: int | None) -> bool:
    if mine is None:
        return store.claims.is_settled_by(id, worker)
    ended = [run.status for run in store.claims.runs(id) if run.token == mine]
    return store.jobs.get(id).token == mine and bool(ended) and ended[0] in (COMPLETED, FAILED, RELEASED)


def _wait_for_work(store: Store, worker: str | None) -> str:
    """Wait until something is ready, at most a few seconds; what to tell.

    Something may be ready at once: it came in between, or the caller looks at one queue only. A short wait even then
    keeps such a caller from spinning. Asking is a beat, and so is waiting.
    """
    import time

    deadline, beat_at = time.monotonic() + WAIT_FOR_WORK, 0.0
    listener = store.database.listen()
    try:
        while (left := deadline - time.monotonic()) > 0:
            if worker is not None and time.monotonic() >= beat_at:
                store.workers.heartbeat(worker)
                every = store.workers.get(worker).heartbeat_interval
                beat_at = time.monotonic() + (every or MINUTE) / SECOND / 2
            listener.wait(min(left, LOOK_AGAIN))
            if store.jobs.ready(limit=1):
                return "nothing was ready to claim, but now there is: look again"
    finally:
        listener.close()
    return f"nothing is ready: waited {WAIT_FOR_WORK:g}s for work"


def _told(claim: Claim) -> str:
    return f"job {claim.job_id} claimed by {claim.worker_id}, token {claim.token}{_until(claim)}"


def _until(claim: Claim) -> str:
    if claim.lease_expires_at is None:
        return ""
    return f", lease until {format_instant(claim.lease_expires_at)[:19]}Z"
