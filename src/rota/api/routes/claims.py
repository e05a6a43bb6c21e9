"""Claims over HTTP: a worker takes jobs, renews, gives back and settles, each with the claim's token."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota import documents
from rota.api.request import share_call
from rota.api.route import Route
from rota.api.routes.jobs import job_document
from rota.api.schemas import nouns, requests, responses
from rota.core.access import WORK
from rota.core.claim import Claim, Done, Failed, Released, Snoozed
from rota.core.errors import BadInput, NotFound, NothingReady
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
    """The best ready job with its claim; an empty list when there was none for as long as the caller wished to wait."""
    if not request.body.wait:
        return await request.ask(lambda store: _take(store, request))
    with request.state.open_requests.one(request.token):
        return await _wait(request)


async def _wait(request: ApiRequest) -> list[Document]:
    await request.state.job_notifications.open()
    deadline = time.monotonic() + request.body.wait
    taken = await request.ask(lambda store: _take(store, request))
    beaten = time.monotonic()
    poll = request.state.settings.poll_interval / SECOND
    while not taken and time.monotonic() < deadline and not await request.http.is_disconnected():
        seen = request.state.job_notifications.count
        if time.monotonic() - beaten >= poll:  # waiting is a beat, and whatever anyone adds or ends rings
            beaten = time.monotonic()
            await request.ask(lambda store: _beat(store, request))
        if await _is_anything_ready(request, seen):
            taken = await request.ask(lambda store: _take(store, request))
        if not taken:
            await request.state.job_notifications.wait(seen, min(poll, deadline - time.monotonic()))
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


async def _is_anything_ready(request: ApiRequest, seen: int) -> bool:
    """Look before writing, once for all who wait for the same: a notification wakes them all."""
    queue, state = request.body.queue, request.state

    def look() -> Awaitable[bool]:
        return state.writers.ask(lambda store: bool(store.jobs.ready(queue, 1)))

    return await share_call(state.ready_checks, (queue, seen), look)


def _beat(store: Store, request: ApiRequest) -> None:
    if request.body.worker_id is not None:
        store.workers.heartbeat(request.body.worker_id)


def claim(store: Store, request: ApiRequest) -> Document:
    wanted = request.body
    _check(wanted)
    return documents.claim(store.claims.claim(_id(request), wanted.worker_id, _duration(wanted.lease), wanted.person))


def _check(wanted: requests.Take | requests.ClaimJob) -> None:
    """A claim is made for a worker, or by hand for a person."""
    if (wanted.worker_id is None) == (wanted.person is None):
        raise BadInput("say for whom to claim: a worker_id, or a person such as ada@laptop; not both")
    if wanted.person is not None and not (wanted.person.isprintable() and wanted.person.strip()):
        raise BadInput(f"{wanted.person!r} is nobody's name: write for example ada@laptop")


def checkpoint(store: Store, request: ApiRequest) -> Document:
    store.claims.checkpoint(_held(request), request.body.value)
    return {"id": _id(request)}


def capture(store: Store, request: ApiRequest) -> Document:
    store.claims.capture(_held(request), request.body.transcript_path, request.body.stderr_path)
    return {"id": _id(request)}


def renew(store: Store, request: ApiRequest) -> Document:
    return documents.claim(store.claims.renew(_held(request), _duration(request.body.lease)))


def release(store: Store, request: ApiRequest) -> Document:
    store.claims.release(_held(request), request.body.note)
    return _as_left(store, request, store.jobs.get(_id(request)))


def results(store: Store, request: ApiRequest) -> list[Document]:
    """For who may only work: of a job that it holds, or held."""
    return [documents.needed(job) for job in store.claims.results(_id(request), request.body.token)]


def settle(store: Store, request: ApiRequest) -> Document:
    """The job as it stands; of one that is gone since it is done, or that others had since, only its state."""
    held, outcome = _held(request), outcome_of(request.body)
    try:
        job = store.jobs.get(held.job_id)
    except NotFound:
        store.claims.settle(held, outcome)
        return {"id": held.job_id, "status": DONE}
    store.claims.settle(held, outcome)
    return _as_left(store, request, store.jobs.get_or(job.but(status=DONE)))


def _as_left(store: Store, request: ApiRequest, job: Job) -> Document:
    """The job that a claim was on: the token that once held it opens nothing that others said of it since."""
    if ownership.sees(store, job, request.body.token):
        return job_document(request, job)
    return {"id": job.id, "status": job.status}


def _held(request: ApiRequest) -> Claim:
    """The claim that the token stands for; whose it is and whether it lives, the store says."""
    return Claim(_id(request), request.body.token, "you", 0, None)


def outcome_of(told: requests.Settle) -> Outcome:
    """What was reported, or what it lacks."""
    match told.outcome:
        case "done":
            return Done(encode_payload(told.result, "result"))
        case "failed":
            if not (told.error or "").strip():
                raise BadInput("an outcome of failed needs an error: a word about what went wrong")
            return Failed(told.error or "", not told.final)
        case "snoozed":
            if told.delay is None:
                raise BadInput("an outcome of snoozed needs a delay: after how many seconds to try again")
            return Snoozed(round(told.delay * SECOND), told.note)
        case "released":
            return Released(told.note)


def _duration(seconds: float | None) -> Duration | None:
    return None if seconds is None else max(1, round(seconds * SECOND))


def _id(request: ApiRequest) -> int:
    return job_id(request.path["id"])


ROUTES = (
    Route(
        "POST",
        "/api/v1/claims",
        take,
        WORK,
        "take the best ready job; wait for one if asked to",
        list[nouns.TakenJob],
        requests.Take,
        requests.Details,
        is_async=True,
    ),
    Route("POST", "/api/v1/jobs/{id}/claim", claim, WORK, "take this job", nouns.Claim, requests.ClaimJob),
    Route("POST", "/api/v1/jobs/{id}/claim/renew", renew, WORK, "extend the lease", nouns.Claim, requests.Renew),
    Route(
        "POST",
        "/api/v1/jobs/{id}/claim/release",
        release,
        WORK,
        "give it back",
        nouns.Job | responses.Gone,
        requests.Release,
        requests.Details,
    ),
    Route(
        "POST",
        "/api/v1/jobs/{id}/claim/checkpoint",
        checkpoint,
        WORK,
        "keep what the next attempt should know",
        responses.Kept,
        requests.Keep,
    ),
    Route(
        "POST",
        "/api/v1/jobs/{id}/claim/capture",
        capture,
        WORK,
        "say where its output is written",
        responses.Kept,
        requests.Capture,
    ),
    Route(
        "POST",
        "/api/v1/jobs/{id}/claim/results",
        results,
        WORK,
        "what the jobs said that it waited for",
        list[nouns.Needed],
        requests.ClaimToken,
    ),
    Route(
        "POST",
        "/api/v1/jobs/{id}/claim/settle",
        settle,
        WORK,
        "say what became of it",
        nouns.Job | responses.Gone,
        requests.Settle,
        requests.Details,
    ),
)
