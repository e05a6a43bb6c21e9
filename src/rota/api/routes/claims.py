"""Claims over HTTP: take a job, renew, release and settle, each with the token of the claim."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota import documents
from rota.api.request import share_call
from rota.api.route import Route
from rota.api.routes.jobs import job_document
from rota.api.schemas import nouns, requests, responses
from rota.core.access import WORK
from rota.core.claim import Claim
from rota.core.errors import BadInput, NotFound, NothingReady
from rota.core.frames import outcomes
from rota.core.ids import job_id
from rota.core.job import DONE
from rota.core.times import SECOND
from rota.store import ownership
from rota.store.jobs.payload import encode as encode_payload

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rota.api.request import ApiRequest
    from rota.core.claim import Outcome
    from rota.core.job import Job
    from rota.core.times import Duration
    from rota.documents import Document
    from rota.store.store import Store


async def take(request: ApiRequest) -> list[Document]:
    """Return the best ready job with its claim; an empty list if there was none within the time to wait."""
    if not request.body.wait:
        return await request.ask(lambda store: _take(store, request))
    with request.state.open_requests.one(request.token):
        return await _wait(request)


async def _wait(request: ApiRequest) -> list[Document]:
    await request.state.job_notifications.open()
    deadline = time.monotonic() + request.body.wait
    taken = await request.ask(lambda store: _take(store, request))
    heartbeat_at = time.monotonic()
    poll = request.state.settings.poll_interval / SECOND
    while not taken and time.monotonic() < deadline and not await request.http.is_disconnected():
        count = request.state.job_notifications.count
        # A waiting worker is alive. Not with every notification: there is one for each job that is added or ends.
        if time.monotonic() - heartbeat_at >= poll:
            heartbeat_at = time.monotonic()
            await request.ask(lambda store: _heartbeat(store, request))
        if await _is_anything_ready(request, count):
            taken = await request.ask(lambda store: _take(store, request))
        if not taken:
            await request.state.job_notifications.wait(count, min(poll, deadline - time.monotonic()))
            await request.reauthenticate_shared()
    return taken


def _take(store: Store, request: ApiRequest) -> list[Document]:
    _check(request.body)
    lease = _duration(request.body.lease)
    try:
        claim = store.claims.take(request.body.worker_id, request.body.queue, lease, request.body.person)
    except NothingReady:
        return []
    return [{**job_document(request, store.jobs.get(claim.job_id)), "claim": documents.claim(claim)}]


async def _is_anything_ready(request: ApiRequest, count: int) -> bool:
    """Check for ready jobs before a write transaction, once for all requests that wait for the same queue."""
    queue, state = request.body.queue, request.state

    def check() -> Awaitable[bool]:
        return state.writers.ask(lambda store: bool(store.jobs.ready(queue, 1)))

    return await share_call(state.ready_checks, (queue, count), check)


def _heartbeat(store: Store, request: ApiRequest) -> None:
    if request.body.worker_id is not None:
        store.workers.heartbeat(request.body.worker_id)


def claim(store: Store, request: ApiRequest) -> Document:
    body = request.body
    _check(body)
    return documents.claim(store.claims.claim(_id(request), body.worker_id, _duration(body.lease), body.person))


def _check(body: requests.Take | requests.ClaimJob) -> None:
    """Refuse a claim that is not for exactly one of a worker and a person."""
    if (body.worker_id is None) == (body.person is None):
        raise BadInput("say for whom to claim: a worker_id, or a person such as ada@laptop; not both")
    if body.person is not None and not (body.person.isprintable() and body.person.strip()):
        raise BadInput(f"{body.person!r} is nobody's name: write for example ada@laptop")


def checkpoint(store: Store, request: ApiRequest) -> Document:
    store.claims.checkpoint(_claim(request), request.body.value)
    return {"id": _id(request)}


def capture(store: Store, request: ApiRequest) -> Document:
    store.claims.capture(_claim(request), request.body.transcript_path, request.body.stderr_path)
    return {"id": _id(request)}


def renew(store: Store, request: ApiRequest) -> Document:
    return documents.claim(store.claims.renew(_claim(request), _duration(request.body.lease)))


def release(store: Store, request: ApiRequest) -> Document:
    store.claims.release(_claim(request), request.body.note)
    return _as_left(store, request, store.jobs.get(_id(request)))


def results(store: Store, request: ApiRequest) -> list[Document]:
    """Return the results of dependencies for a token with the scope work, of a job that it has or had claimed."""
    return [documents.needed(job) for job in store.claims.results(_id(request), request.body.token)]


def settle(store: Store, request: ApiRequest) -> Document:
    """Settle a claim and return the job; only its state if its row was deleted or another has claimed it since."""
    claim, outcome = _claim(request), outcome_of(request.body)
    try:
        job = store.jobs.get(claim.job_id)
    except NotFound:
        store.claims.settle(claim, outcome)
        return {"id": claim.job_id, "status": DONE}
    store.claims.settle(claim, outcome)
    return _as_left(store, request, store.jobs.get_or(job.replace(status=DONE)))


def _as_left(store: Store, request: ApiRequest, job: Job) -> Document:
    """Return the job of a claim. An old token shows nothing that later claims reported."""
    if ownership.sees(store, job, request.body.token):
        return job_document(request, job)
    return {"id": job.id, "status": job.status}


def _claim(request: ApiRequest) -> Claim:
    """Return the claim of the token. The store checks whose it is and whether it is current."""
    return Claim(_id(request), request.body.token, "you", 0, None)


def outcome_of(body: requests.Settle) -> Outcome:
    """Convert the outcome, or refuse one without the fields that it needs."""
    if body.outcome == "failed" and not (body.error or "").strip():
        raise BadInput("an outcome of failed needs an error: a word about what went wrong")
    if body.outcome == "snoozed" and body.delay is None:
        raise BadInput("an outcome of snoozed needs a delay: after how many seconds to try again")
    document = {
        "outcome": body.outcome,
        "result": encode_payload(body.result, "result"),
        "error": body.error,
        "again": not body.final,
        "delay": None if body.delay is None else round(body.delay * SECOND),
        "note": body.note,
    }
    return outcomes.decode(document)


def _duration(seconds: float | None) -> Duration | None:
    return None if seconds is None else max(1, round(seconds * SECOND))


def _id(request: ApiRequest) -> int:
    return job_id(request.path["id"])


ROUTES = (
    Route(
        "POST", "/api/v1/claims", take, WORK, "take the best ready job; wait for one if asked to",
        list[nouns.TakenJob], requests.Take, requests.Details, is_async=True,
    ),
    Route("POST", "/api/v1/jobs/{id}/claim", claim, WORK, "take this job", nouns.Claim, requests.ClaimJob),
    Route("POST", "/api/v1/jobs/{id}/claim/renew", renew, WORK, "extend the lease", nouns.Claim, requests.Renew),
    Route(
        "POST", "/api/v1/jobs/{id}/claim/release", release, WORK, "give it back", nouns.Job | responses.Gone,
        requests.Release, requests.Details,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/claim/checkpoint", checkpoint, WORK, "save a checkpoint for the next attempt",
        responses.Kept, requests.Keep,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/claim/capture", capture, WORK, "record where its output is written", responses.Kept,
        requests.Capture,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/claim/results", results, WORK, "the results of the jobs that it waited for",
        list[nouns.Needed], requests.ClaimToken,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/claim/settle", settle, WORK, "settle it with an outcome",
        nouns.Job | responses.Gone, requests.Settle, requests.Details,
    ),
)  # fmt: skip
