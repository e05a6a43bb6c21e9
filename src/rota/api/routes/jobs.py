"""Jobs over HTTP."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from rota import documents
from rota.api.json_body import encode_document
from rota.api.route import JSON, Route
from rota.api.schemas import nouns, requests, responses
from rota.core.access import ADMIN, ENQUEUE, READ
from rota.core.errors import TooLarge
from rota.core.ids import job_id
from rota.core.job import Job, NewJob
from rota.core.times import SECOND, parse_instant
from rota.store.directives import LOOK_AGAIN, PATIENCE, not_acknowledged, unacknowledged
from rota.store.jobs.dependencies import around
from rota.store.jobs.jobs import LARGEST_PAGE, Page, search, weight

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store

MOST_EDGES = 50_000
READ_AT_ONCE, MOST_RUNS = 50, 1000


def add(store: Store, request: ApiRequest) -> Document:
    return job_document(request, store.jobs.add(_new(store, request.body)))


async def add_batched(request: ApiRequest) -> Document:
    """Add a job on SQLite, in one transaction with the others that wait for its only writer."""
    new = await request.ask_inline(lambda store: _new(store, request.body))
    id = await request.state.enqueue_batcher.add(new, request.actor, request.token)
    return job_document(request, await request.ask_inline(lambda store: store.jobs.get(id)))


def add_many(store: Store, request: ApiRequest) -> Document:
    edges = sum(len(job.after) + len(job.follows) for job in request.body.jobs)
    if edges > MOST_EDGES:
        raise TooLarge(f"these jobs wait for too much: {edges:,} dependencies in one request, at most {MOST_EDGES:,}")
    return {"ids": store.jobs.add_many([_new(store, job) for job in request.body.jobs])}


def list_jobs(store: Store, request: ApiRequest) -> Response:
    """List jobs. A full page links to the next, as do a page of large jobs and a search that is not finished."""
    query = request.query
    page = Page(query.status, query.queue, query.limit, query.before, query.internal)
    jobs, before = search(store, query.search, page) if query.search else _listed(store, page)
    headers = {}
    if before is not None:
        headers["Link"] = next_page(request, before=before)
    return Response(encode_document([job_document(request, job) for job in jobs]), 200, headers, JSON)


def _listed(store: Store, page: Page) -> tuple[list[Job], int | None]:
    """Return the newest jobs, and the id before which the next page begins; None at the end."""
    jobs: list[Job] = []
    size, before = 0, page.before
    # Jobs may be large, so they are read in portions and a page ends early once it is large enough.
    while len(jobs) < page.limit and size < LARGEST_PAGE:
        most = min(READ_AT_ONCE, page.limit - len(jobs))
        portion = store.jobs.list(page.status, page.queue, most, before, page.internal)
        if len(portion) < most:
            return jobs + portion, None
        jobs, size, before = jobs + portion, size + sum(map(weight, portion)), portion[-1].id
    return jobs, before


def ready(store: Store, request: ApiRequest) -> list[Document]:
    return [job_document(request, job) for job in store.jobs.ready(request.query.queue, request.query.limit)]


def show(store: Store, request: ApiRequest) -> Document:
    return job_document(request, store.jobs.get(_id(request)))


def why(store: Store, request: ApiRequest) -> Document:
    return {"id": _id(request), "why": store.jobs.why(_id(request))}


def graph(store: Store, request: ApiRequest) -> Document:
    return around(store, _id(request))


def runs(store: Store, request: ApiRequest) -> list[Document]:
    return [documents.run(run) for run in store.claims.runs(store.jobs.get(_id(request)).id, MOST_RUNS)]


async def cancel(request: ApiRequest) -> Document:
    """Cancel a job, and answer once no worker runs it any more."""
    before = await request.ask(lambda store: store.jobs.get(_id(request)))
    job = await request.ask(lambda store: store.jobs.cancel(before.id))
    if before.orchestrator is not None:
        await wait_until_acknowledged(request, f"job {job.id} is cancelled")
    return job_document(request, job)


def retry(store: Store, request: ApiRequest) -> Document:
    return job_document(request, store.jobs.retry(_id(request)))


def done(store: Store, request: ApiRequest) -> Document:
    return job_document(request, store.jobs.done(_id(request), request.body.result, request.body.force))


def fail(store: Store, request: ApiRequest) -> Document:
    return job_document(
        request, store.jobs.fail(_id(request), request.body.error, not request.body.final, request.body.force)
    )


def snooze(store: Store, request: ApiRequest) -> Document:
    delay = max(1, round(request.body.delay * SECOND))
    return job_document(request, store.jobs.snooze(_id(request), delay, request.body.note))


def results(store: Store, request: ApiRequest) -> list[Document]:
    return [documents.needed(job) for job in store.jobs.results(_id(request))]


def block(store: Store, request: ApiRequest) -> Document:
    return job_document(request, store.jobs.block(_id(request), request.body.on))


def unblock(store: Store, request: ApiRequest) -> Document:
    return job_document(request, store.jobs.unblock(_id(request), request.body.on))


async def wait_until_acknowledged(request: ApiRequest, what: str) -> None:
    """Wait until every live orchestrator has acknowledged the last directive; `Refused` names those that have not."""
    directive = await request.ask(lambda store: store.orchestrators.last_directive())
    deadline = time.monotonic() + PATIENCE
    while (late := await request.ask(lambda store: unacknowledged(store, directive))) and time.monotonic() <= deadline:
        await asyncio.sleep(LOOK_AGAIN)
    if late:
        raise not_acknowledged(what, late)


def next_page(request: ApiRequest, **parameters: object) -> str:
    """Return a `Link` header to this request with other parameters."""
    url = request.http.url.include_query_params(**parameters)
    return f'<{url.path}?{url.query}>; rel="next"'


def job_document(request: ApiRequest, job: Job) -> Document:
    """Return the document of a job, with details if the query asks for them."""
    document = documents.job(job)
    return {**document, "details": documents.job_details(job)} if request.query.details else document


def _id(request: ApiRequest) -> int:
    return job_id(request.path["id"])


def _new(store: Store, body: requests.NewJob) -> NewJob:
    fields: dict[str, Any] = {name: getattr(body, name) for name in requests.NewJob.__struct_fields__}
    fields["at"] = parse_instant(body.at, store.database.wall()) if body.at is not None else None
    fields["timeout"] = round(body.timeout * SECOND) if body.timeout is not None else None
    for name in ("debounce", "at_most"):
        fields[name] = None if fields[name] is None else round(fields[name] * SECOND)
    fields["after"] = list(dict.fromkeys(body.after))
    return NewJob(**fields)


ROUTES = (
    Route(
        "GET", "/api/v1/jobs", list_jobs, READ, "jobs, newest first", list[nouns.Job], query=requests.JobFilter,
        inline=True,
    ),
    Route(
        "POST", "/api/v1/jobs", add, ENQUEUE, "add a job", nouns.Job, requests.NewJob, requests.Details,
        on_sqlite=add_batched,
    ),
    Route(
        "POST", "/api/v1/jobs/bulk", add_many, ENQUEUE, "add many jobs, all or none", responses.Ids, requests.NewJobs,
    ),
    Route(
        "GET", "/api/v1/jobs/ready", ready, READ, "jobs that can be claimed now, best first", list[nouns.Job],
        query=requests.ReadyFilter, may_write=True,
    ),
    Route("GET", "/api/v1/jobs/{id}", show, READ, "one job", nouns.Job, query=requests.Details, inline=True),
    Route("GET", "/api/v1/jobs/{id}/why", why, READ, "why it is not running, in one sentence", responses.Why),
    Route("GET", "/api/v1/jobs/{id}/graph", graph, READ, "what it waits for and what waits for it", responses.Graph),
    Route("GET", "/api/v1/jobs/{id}/runs", runs, READ, "what the last claims on it did, oldest first", list[nouns.Run]),
    Route(
        "GET", "/api/v1/jobs/{id}/results", results, READ, "the results of the jobs that it waited for",
        list[nouns.Needed],
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/snooze", snooze, ADMIN, "postpone it though it is claimed, without a token",
        nouns.Job, requests.Snooze, requests.Details,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/cancel", cancel, ADMIN, "cancel it, whatever its state", nouns.Job, requests.Empty,
        requests.Details, is_async=True,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/retry", retry, ADMIN, "run it once more", nouns.Job, requests.Empty,
        requests.Details,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/done", done, ADMIN, "settle it as done, without a token", nouns.Job, requests.Done,
        requests.Details,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/fail", fail, ADMIN, "settle it as failed, without a token", nouns.Job,
        requests.Fail, requests.Details,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/block", block, ADMIN, "let it wait for another", nouns.Job, requests.On,
        requests.Details,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/unblock", unblock, ADMIN, "let it wait no longer", nouns.Job, requests.On,
        requests.Details,
    ),
)  # fmt: skip
