"""Claims by hand: `ready`, `claim`, `claim:renew`, `claim:release`, and `done`, `fail`, `snooze` to settle one.

With a token a claim is settled as its holder, fenced; without one under the rules for people. Loops call these verbs on
every turn, so this file imports next to nothing at module level (decision 5).
"""

from __future__ import annotations

import os
import time

from rota import documents
from rota.cli.invocation import job_table
from rota.cli.parser import BARE, NOTHING_READY
from rota.cli.verb import Argument, Option, verb
from rota.core.claim import COMPLETED, FAILED, RELEASED, Claim, Done, Failed, Snoozed
from rota.core.errors import BadInput, NotFound, NothingReady, Stale
from rota.core.job import DONE
from rota.core.times import MINUTE, SECOND, format_instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call
    from rota.core.claim import Outcome
    from rota.core.job import Job
    from rota.store.store import Store

WAIT_FOR_WORK = 5.0
LOOK_AGAIN = 0.5

JOB = Argument("ID", "the job", "job", env="ROTA_JOB_ID")
TOKEN = Option("--token", "the claim's token, which proves that it is yours", "T", "token", env="ROTA_CLAIM_TOKEN")
QUEUE = Option("--queue", "only this queue", "Q", "queue")
_WORKER = Argument("WORKER", "the worker; without one, your own user and host", "worker", "ROTA_WORKER_ID", False)
_LEASE = Option("--lease", "how long the claim lasts; a bare number is minutes", "D", "lease", default="30m")
_FORCE = Option("--force", "settle it whoever holds it, and even if nobody does; logged as forced")


@verb(
    "ready",
    "jobs that can be claimed now, best first; with --claim, take the best in one step",
    "rota ready --limit 1 --json | jq -r '.[0].id'",
    options=(
        QUEUE,
        Option("--limit", "how many", "N", "count", default="10"),
        Option("--claim", "take the best one", "WORKER", "worker", env="ROTA_WORKER_ID", bare=True),
        _LEASE,
    ),
    hot=True,
)
def ready(call: Call) -> int:
    if call["claim"] is not None:
        return _take(call)
    if call["lease"] is not None:
        raise BadInput("--lease goes with --claim: nothing is claimed without it")
    with call.store() as store:
        jobs = store.jobs.ready(call["queue"], call["limit"] or 10)
        ready_jobs = [documents.job(job) for job in jobs]
        return call.listing(ready_jobs, lambda: job_table(call, jobs, store.now()), "nothing is ready")


def _take(call: Call) -> int:
    """Claim the best ready job."""
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
            call.say(f"{_sentence(claim)}: {job.title}")
    return 0


@verb(
    "claim",
    "take a job; `null` (nothing was ready) waits up to 5 s for work and then exits 6",
    "rota claim 5 worker-1a2b3c4d --lease 30m",
    (Argument("ID", "the job", "job_or_null", env="ROTA_JOB_ID"), _WORKER),
    (_LEASE,),
    hot=True,
)
def claim(call: Call) -> int:
    with call.store() as store:
        if call["id"] == NOTHING_READY:
            # Wait instead of failing at once: a loop over `rota ready` would otherwise spin.
            raise NothingReady(_wait_for_work(store, call["worker"]))
        claim = store.claims.claim(call["id"], call["worker"], call["lease"])
    return call.answer(documents.claim(claim), _sentence(claim))


@verb(
    "claim:renew",
    "extend the lease on a job you hold; never shortens it",
    "rota claim:renew 5 worker-1a2b3c4d",
    (JOB, _WORKER),
    (Option("--lease", "as at the claim, unless said otherwise", "D", "lease"), TOKEN),
    aliases=("claim renew",),
    hot=True,
)
def renew(call: Call) -> int:
    with call.store() as store:
        held = store.claims.held(call["id"], call["worker"] if token(call) is None else None, token(call))
        claim = store.claims.renew(held, call["lease"])
    is_supervised = claim.lease_expires_at is None
    how = " is renewed by its orchestrator" if is_supervised else f" renewed{_until(claim)}"
    return call.answer(documents.claim(claim), f"job {claim.job_id}{how}")


@verb(
    "claim:release",
    "give a job back unfinished; no error if its worker has settled it already",
    "rota claim:release 5 worker-1a2b3c4d --note 'half done'",
    (JOB, _WORKER),
    (Option("--note", "a word for the next holder", "TEXT"), TOKEN),
    aliases=("claim release",),
    hot=True,
)
def release(call: Call) -> int:
    with call.store() as store:
        id, worker, own_token = call["id"], call["worker"], token(call)
        settled = False
        try:
            held = store.claims.held(id, None if own_token else worker, own_token)
            store.claims.release(held, call["note"])
        except Stale:
            settled = _is_settled(store, id, worker, own_token)
            if not settled:
                raise
        job = store.jobs.get(id)
    text = f"job {job.id} was settled already: it is {job.status}" if settled else f"job {job.id} {job.status}"
    return call.answer(documents.job(job), text)


@verb(
    "done",
    "report that a job is done",
    "rota done 5 --token 12 --result '{\"tags\": 3}'",
    (JOB,),
    (TOKEN, _FORCE, Option("--result", "JSON, or @file, or - for standard input", "JSON", "json")),
    hot=True,
)
def done(call: Call) -> int:
    with call.store() as store:
        own_token = _fence(call)
        if own_token is None:
            job: Job | int = store.jobs.done(call["id"], call["result"], bool(call["force"]))
        else:
            job = _settle(store, call["id"], own_token, Done(_encoded(call["result"])))
    return _answer(call, job)


@verb(
    "fail",
    "report that a job failed; it is tried again while attempts are left",
    "rota fail 5 --error 'no such file'",
    (JOB,),
    (
        Option("--error", "what went wrong", "TEXT", required=True),
        TOKEN,
        _FORCE,
        Option("--final", "trying again would not help"),
    ),
)
def fail(call: Call) -> int:
    if not call["error"].strip():
        raise BadInput("--error needs a word about what went wrong")
    with call.store() as store:
        own_token, again = _fence(call), not call["final"]
        if own_token is None:
            job: Job | int = store.jobs.fail(call["id"], call["error"], again, bool(call["force"]))
        else:
            job = _settle(store, call["id"], own_token, Failed(call["error"], again))
    return _answer(call, job)


@verb(
    "snooze",
    "give a job back that you hold, not to be tried before a while; spends no attempt",
    "rota snooze 5 --for 10m --note 'the disk is asleep'",
    (JOB,),
    (
        Option("--for", "how long", "D", "duration", required=True),
        Option("--note", "a word for the next holder", "TEXT"),
        TOKEN,
    ),
)
def snooze(call: Call) -> int:
    with call.store() as store:
        own_token = token(call)
        if own_token is None:
            job: Job | int = store.jobs.snooze(call["id"], call["for"], call["note"])
        else:
            job = _settle(store, call["id"], own_token, Snoozed(call["for"], call["note"]))
    return _answer(call, job)


def token(call: Call) -> int | None:
    """Return the token that was given; one from the environment counts only for the job of the environment."""
    token: int | None = call["token"]
    job = os.environ.get("ROTA_JOB_ID")
    if token is not None and os.environ.get("ROTA_CLAIM_TOKEN") == str(token) and job and job != str(call["id"]):
        return None
    return token


def _is_settled(store: Store, id: int, worker: str | None, own_token: int | None) -> bool:
    if own_token is None:
        return store.claims.is_settled_by(id, worker)
    ended = [run.status for run in store.claims.runs(id) if run.token == own_token]
    return store.jobs.get(id).token == own_token and bool(ended) and ended[0] in (COMPLETED, FAILED, RELEASED)


def _wait_for_work(store: Store, worker: str | None) -> str:
    """Wait a few seconds until a job is ready, and return what to print.

    A job may be ready at once, added since or in a queue that the caller does not look at. The short wait keeps that
    caller from spinning too. Waiting sends the heartbeats of the worker.
    """
    deadline, heartbeat_at = time.monotonic() + WAIT_FOR_WORK, 0.0
    listener = store.database.listen()
    try:
        while (left := deadline - time.monotonic()) > 0:
            if worker is not None and time.monotonic() >= heartbeat_at:
                store.workers.heartbeat(worker)
                every = store.workers.get(worker).heartbeat_interval
                heartbeat_at = time.monotonic() + (every or MINUTE) / SECOND / 2
            listener.wait(min(left, LOOK_AGAIN))
            if store.jobs.ready(limit=1):
                return "nothing was ready to claim, but now there is: look again"
    finally:
        listener.close()
    return f"nothing is ready: waited {WAIT_FOR_WORK:g}s for work"


def _sentence(claim: Claim) -> str:
    return f"job {claim.job_id} claimed by {claim.worker_id}, token {claim.token}{_until(claim)}"


def _until(claim: Claim) -> str:
    if claim.lease_expires_at is None:
        return ""
    return f", lease until {format_instant(claim.lease_expires_at)[:19]}Z"


def _fence(call: Call) -> int | None:
    """Return the token to settle with, None with --force."""
    return None if call["force"] else token(call)


def _settle(store: Store, id: int, own_token: int, outcome: Outcome) -> Job | int:
    """Settle a claim and return the job, or its id when the job came from a source and is gone already."""
    try:
        job = store.jobs.get(id)
    except NotFound:
        store.claims.settle(Claim(id, own_token, "you", 0, None), outcome)
        return id
    store.claims.settle(_by_token(job, own_token), outcome)
    return store.jobs.get_or(job.replace(status=DONE))


def _by_token(job: Job, own_token: int) -> Claim:
    """Return the claim of a token. The store decides whether it is current."""
    holder = job.worker_id if job.token == own_token and job.worker_id else "you"
    return Claim(job.id, own_token, holder, job.claimed_at or 0, job.lease_expires_at)


def _encoded(result: str | None) -> str | None:
    if result is None:
        return None
    from rota.store.jobs.payload import encode

    return encode(result, "result")


def _answer(call: Call, job: Job | int) -> int:
    if isinstance(job, int):
        return call.answer({"id": job, "status": DONE}, f"job {job} {DONE}")
    attempts = f" (attempt {job.attempts} of {job.max_attempts})" if job.error else ""
    return call.answer(documents.job(job), f"job {job.id} {job.status}{attempts}")
