"""Claims over HTTP: a worker takes jobs, renews, gives back and settles, each with the claim's token."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota import documents
from rota.api.request import together
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

    from rota.api.request import Visit
    from rota.core.claim import Outcome
    from rota.core.job import Job
    from rota.core.times import Duration
    from rota.documents import Document
    from rota.store.store import Store


async def take(visit: Visit) -> list[Document]:
    """The best ready job with its claim; an empty list when there was none for as long as the caller wished to wait."""
    if not visit.body.wait:
        return await visit.ask(lambda store: _take(store, visit))
    with visit.site.waiting.one(visit.token):
        return await _wait(visit)


async def _wait(visit: Visit) -> list[Document]:
    await visit.site.work.open()
    deadline = time.monotonic() + visit.body.wait
    taken = await visit.ask(lambda store: _take(store, visit))
    beaten = time.monotonic()
    poll = visit.site.settings.poll_interval / SECOND
    while not taken and time.monotonic() < deadline and not await visit.request.is_disconnected():
        seen = visit.site.work.rings
        if time.monotonic() - beaten >= poll:  # waiting is a beat, and whatever anyone adds or ends rings
            beaten = time.monotonic()
            await visit.ask(lambda store: _beat(store, visit))
        if await _is_anything_ready(visit, seen):
            taken = await visit.ask(lambda store: _take(store, visit))
        if not taken:
            await visit.site.work.wait(seen, min(poll, deadline - time.monotonic()))
            await visit.prove_with_others()
    return taken


def _take(store: Store, visit: Visit) -> list[Document]:
    _check(visit.body)
    lease = _duration(visit.body.lease)
    try:
        claim = store.claims.take(visit.body.worker_id, visit.body.queue, lease, visit.body.person)
    except NothingReady:
        return []
    return [{**job_document(visit, store.jobs.get(claim.job_id)), "claim": documents.claim(claim)}]


async def _is_anything_ready(visit: Visit, seen: int) -> bool:
    """Look before writing, once for all who wait for the same: a notification wakes them all."""
    queue, site = visit.body.queue, visit.site

    def look() -> Awaitable[bool]:
        return site.writers.ask(lambda store: bool(store.jobs.ready(queue, 1)))

    return await together(site.looks, (queue, seen), look)


def _beat(store: Store, visit: Visit) -> None:
    if visit.body.worker_id is not None:
        store.workers.heartbeat(visit.body.worker_id)


def claim(store: Store, visit: Visit) -> Document:
    wanted = visit.body
    _check(wanted)
    return documents.claim(store.claims.claim(_id(visit), wanted.worker_id, _duration(wanted.lease), wanted.person))


def _check(wanted: requests.Take | requests.ClaimJob) -> None:
    """A claim is made for a worker, or by hand for a person."""
    if (wanted.worker_id is None) == (wanted.person is None):
        raise BadInput("say for whom to claim: a worker_id, or a person such as ada@laptop; not both")
    if wanted.person is not None and not (wanted.person.isprintable() and wanted.person.strip()):
        raise BadInput(f"{wanted.person!r} is nobody's name: write for example ada@laptop")


def checkpoint(store: Store, visit: Visit) -> Document:
    store.claims.checkpoint(_held(visit), visit.body.value)
    return {"id": _id(visit)}


def capture(store: Store, visit: Visit) -> Document:
    store.claims.capture(_held(visit), visit.body.transcript_path, visit.body.stderr_path)
    return {"id": _id(visit)}


def renew(store: Store, visit: Visit) -> Document:
    return documents.claim(store.claims.renew(_held(visit), _duration(visit.body.lease)))


def release(store: Store, visit: Visit) -> Document:
    store.claims.release(_held(visit), visit.body.note)
    return _as_left(store, visit, store.jobs.get(_id(visit)))


def results(store: Store, visit: Visit) -> list[Document]:
    """For who may only work: of a job that it holds, or held."""
    return [documents.needed(job) for job in store.claims.results(_id(visit), visit.body.token)]


def settle(store: Store, visit: Visit) -> Document:
    """The job as it stands; of one that is gone since it is done, or that others had since, only its state."""
    held, outcome = _held(visit), outcome_of(visit.body)
    try:
        job = store.jobs.get(held.job_id)
    except NotFound:
        store.claims.settle(held, outcome)
        return {"id": held.job_id, "status": DONE}
    store.claims.settle(held, outcome)
    return _as_left(store, visit, store.jobs.get_or(job.replace(status=DONE)))


def _as_left(store: Store, visit: Visit, job: Job) -> Document:
    """The job that a claim was on: the token that once held it opens nothing that others said of it since."""
    if ownership.sees(store, job, visit.body.token):
        return job_document(visit, job)
    return {"id": job.id, "status": job.status}


def _held(visit: Visit) -> Claim:
    """The claim that the token stands for; whose it is and whether it lives, the store says."""
    return Claim(_id(visit), visit.body.token, "you", 0, None)


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


def _id(visit: Visit) -> int:
    return job_id(visit.path["id"])


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
