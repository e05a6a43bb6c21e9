"""Jobs over HTTP."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from rota import documents
from rota.api.json import dump
from rota.api.route import JSON, Route
from rota.api.schemas import nouns, requests, responses, views
from rota.core.access import ADMIN, ENQUEUE, READ
from rota.core.errors import TooLarge
from rota.core.ids import job_id
from rota.core.job import Job, NewJob
from rota.core.times import SECOND, parse_instant
from rota.store.directives import LOOK_AGAIN, PATIENCE, not_acknowledged, unacknowledged
from rota.store.jobs.graph import around
from rota.store.jobs.search import LARGEST_PAGE, Page, search, weight

if TYPE_CHECKING:
    from rota.api.request import Visit
    from rota.documents import Document
    from rota.store.store import Store

MOST_EDGES = 50_000
READ_AT_ONCE, MOST_RUNS = 50, 1000


def add(store: Store, visit: Visit) -> Document:
    return job_document(visit, store.jobs.add(_new(store, visit.body)))


async def add_together(visit: Visit) -> Document:
    """The same, together with whatever else waits for the one writer of a file."""
    new = await visit.look(lambda store: _new(store, visit.body))
    id = await visit.site.adding.add(new, visit.actor, visit.token)
    return job_document(visit, await visit.look(lambda store: store.jobs.get(id)))


def add_many(store: Store, visit: Visit) -> Document:
    edges = sum(len(each.after) + len(each.follows) for each in visit.body.jobs)
    if edges > MOST_EDGES:
        raise TooLarge(f"these jobs wait for too much: {edges:,} dependencies in one request, at most {MOST_EDGES:,}")
    return {"ids": store.jobs.add_many([_new(store, each) for each in visit.body.jobs])}


def list_jobs(store: Store, visit: Visit) -> Response:
    """A full page links to the next one; so does one of large jobs, and a search that has more jobs to look at."""
    wanted = visit.query
    page = Page(wanted.status, wanted.queue, wanted.limit, wanted.before, wanted.internal)
    found, before = search(store, wanted.search, page) if wanted.search else _listed(store, page)
    headers = {}
    if before is not None:
        headers["Link"] = next_page(visit, before=before)
    return Response(dump([job_document(visit, job) for job in found]), 200, headers, JSON)


def _listed(store: Store, page: Page) -> tuple[list[Job], int | None]:
    """The newest jobs, and the id before which to list on; None at the end."""
    found: list[Job] = []
    size, before = 0, page.before
    while len(found) < page.limit and size < LARGEST_PAGE:
        most = min(READ_AT_ONCE, page.limit - len(found))
        some = store.jobs.list(page.status, page.queue, most, before, page.internal)
        if len(some) < most:
            return found + some, None
        found, size, before = found + some, size + sum(map(weight, some)), some[-1].id
    return found, before


def ready(store: Store, visit: Visit) -> list[Document]:
    return [job_document(visit, job) for job in store.jobs.ready(visit.query.queue, visit.query.limit)]


def show(store: Store, visit: Visit) -> Document:
    return job_document(visit, store.jobs.get(_id(visit)))


def why(store: Store, visit: Visit) -> Document:
    return {"id": _id(visit), "why": store.jobs.why(_id(visit))}


def graph(store: Store, visit: Visit) -> Document:
    return around(store, _id(visit))


def runs(store: Store, visit: Visit) -> list[Document]:
    return [documents.run(run) for run in store.claims.runs(store.jobs.get(_id(visit)).id, MOST_RUNS)]


async def cancel(visit: Visit) -> Document:
    """Answered once nobody runs it any more."""
    was = await visit.ask(lambda store: store.jobs.get(_id(visit)))
    job = await visit.ask(lambda store: store.jobs.cancel(was.id))
    if was.orchestrator is not None:
        await until_acknowledged(visit, f"job {job.id} is cancelled")
    return job_document(visit, job)


def retry(store: Store, visit: Visit) -> Document:
    return job_document(visit, store.jobs.retry(_id(visit)))


def done(store: Store, visit: Visit) -> Document:
    return job_document(visit, store.jobs.done(_id(visit), visit.body.result, visit.body.force))


def fail(store: Store, visit: Visit) -> Document:
    return job_document(visit, store.jobs.fail(_id(visit), visit.body.error, not visit.body.final, visit.body.force))


def snooze(store: Store, visit: Visit) -> Document:
    delay = max(1, round(visit.body.delay * SECOND))
    return job_document(visit, store.jobs.snooze(_id(visit), delay, visit.body.note))


def results(store: Store, visit: Visit) -> list[Document]:
    return [documents.needed(job) for job in store.jobs.results(_id(visit))]


def block(store: Store, visit: Visit) -> Document:
    return job_document(visit, store.jobs.block(_id(visit), visit.body.on))


def unblock(store: Store, visit: Visit) -> Document:
    return job_document(visit, store.jobs.unblock(_id(visit), visit.body.on))


async def until_acknowledged(visit: Visit, what: str) -> None:
    """Return once every running orchestrator has answered the last wish; `Refused` names those that have not."""
    directive = await visit.ask(lambda store: store.orchestrators.last_directive())
    deadline = time.monotonic() + PATIENCE
    while (late := await visit.ask(lambda store: unacknowledged(store, directive))) and time.monotonic() <= deadline:
        await asyncio.sleep(LOOK_AGAIN)
    if late:
        raise not_acknowledged(what, late)


def next_page(visit: Visit, **following: object) -> str:
    """A `Link` header to the same request with these parameters."""
    url = visit.request.url.include_query_params(**following)
    return f'<{url.path}?{url.query}>; rel="next"'


def job_document(visit: Visit, job: Job) -> Document:
    """A job, with its details where they were asked for."""
    document = documents.job(job)
    return {**document, "details": documents.job_details(job)} if visit.query.details else document


def _id(visit: Visit) -> int:
    return job_id(visit.path["id"])


def _new(store: Store, wanted: requests.NewJob) -> NewJob:
    known: dict[str, Any] = {name: getattr(wanted, name) for name in requests.NewJob.__struct_fields__}
    known["at"] = parse_instant(wanted.at, store.database.wall()) if wanted.at is not None else None
    known["timeout"] = round(wanted.timeout * SECOND) if wanted.timeout is not None else None
    for name in ("debounce", "at_most"):
        known[name] = None if known[name] is None else round(known[name] * SECOND)
    known["after"] = list(dict.fromkeys(wanted.after))
    return NewJob(**known)


ROUTES = (
    Route(
        "GET",
        "/api/v1/jobs",
        list_jobs,
        READ,
        "jobs, newest first",
        list[nouns.Job],
        query=requests.JobFilter,
        quick=True,
    ),
    Route(
        "POST",
        "/api/v1/jobs",
        add,
        ENQUEUE,
        "add a job",
        nouns.Job,
        requests.NewJob,
        requests.Details,
        near=add_together,
    ),
    Route(
        "POST", "/api/v1/jobs/bulk", add_many, ENQUEUE, "add many jobs, all or none", responses.Ids, requests.NewJobs
    ),
    Route(
        "GET",
        "/api/v1/jobs/ready",
        ready,
        READ,
        "jobs that can be claimed now, best first",
        list[nouns.Job],
        query=requests.ReadyFilter,
        tends=True,
    ),
    Route("GET", "/api/v1/jobs/{id}", show, READ, "one job", nouns.Job, query=requests.Details, quick=True),
    Route("GET", "/api/v1/jobs/{id}/why", why, READ, "why it is not running, in one sentence", responses.Why),
    Route("GET", "/api/v1/jobs/{id}/graph", graph, READ, "what it waits for and what waits for it", views.Graph),
    Route("GET", "/api/v1/jobs/{id}/runs", runs, READ, "what the last claims on it did, oldest first", list[nouns.Run]),
    Route(
        "GET", "/api/v1/jobs/{id}/results", results, READ, "what the jobs said that it waited for", list[nouns.Needed]
    ),
    Route(
        "POST",
        "/api/v1/jobs/{id}/snooze",
        snooze,
        ADMIN,
        "put it off though it is held, without a token",
        nouns.Job,
        requests.Snooze,
        requests.Details,
    ),
    Route(
        "POST",
        "/api/v1/jobs/{id}/cancel",
        cancel,
        ADMIN,
        "call it off, whatever it is doing",
        nouns.Job,
        requests.Empty,
        requests.Details,
        is_async=True,
    ),
    Route(
        "POST", "/api/v1/jobs/{id}/retry", retry, ADMIN, "run it once more", nouns.Job, requests.Empty, requests.Details
    ),
    Route(
        "POST",
        "/api/v1/jobs/{id}/done",
        done,
        ADMIN,
        "settle it as done, without a token",
        nouns.Job,
        requests.Done,
        requests.Details,
    ),
    Route(
        "POST",
        "/api/v1/jobs/{id}/fail",
        fail,
        ADMIN,
        "settle it as failed, without a token",
        nouns.Job,
        requests.Fail,
        requests.Details,
    ),
    Route(
        "POST",
        "/api/v1/jobs/{id}/block",
        block,
        ADMIN,
        "let it wait for another",
        nouns.Job,
        requests.On,
        requests.Details,
    ),
    Route(
        "POST",
        "/api/v1/jobs/{id}/unblock",
        unblock,
        ADMIN,
        "let it wait no longer",
        nouns.Job,
        requests.On,
        requests.Details,
    ),
)
