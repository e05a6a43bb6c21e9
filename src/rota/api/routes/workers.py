"""Workers over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from rota import documents
from rota.api.route import Route
from rota.api.routes.jobs import job_document
from rota.api.schemas import nouns, requests, responses
from rota.core.access import ADMIN, READ, WORK
from rota.core.errors import NotFound
from rota.core.times import SECOND

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.core.worker import Worker
    from rota.documents import Document
    from rota.store.store import Store


def register(store: Store, request: ApiRequest) -> Document:
    body = request.body
    every = None if body.every is None else round(body.every * SECOND)
    worker = store.workers.register(body.name, every, body.pid, body.queue, body.hostname or "")
    return _document(request, worker, worker.status)


def list_workers(store: Store, request: ApiRequest) -> list[Document]:
    return [_document(request, worker, store.workers.shown(worker)) for worker in store.workers.list(request.query.all)]


def show(store: Store, request: ApiRequest) -> Document:
    worker = store.workers.get(request.path["id"])
    return _document(request, worker, store.workers.shown(worker))


def held(store: Store, request: ApiRequest) -> list[Document]:
    return [job_document(request, job) for job in store.workers.held(store.workers.get(request.path["id"]).id)]


def certificate(store: Store, request: ApiRequest) -> Document:
    certificate = store.workers.certificate(store.workers.get(request.path["id"]).id)
    if certificate is None:
        raise NotFound(f"{request.path['id']} has not died")
    return documents.certificate(certificate)


def heartbeat(store: Store, request: ApiRequest) -> Document:
    id = request.path["id"]
    metrics = _given_fields(request.body)
    return {"id": id, "advice": store.workers.heartbeat(id, metrics)}


def deregister(store: Store, request: ApiRequest) -> Document:
    id = request.path["id"]
    return {"id": id, "released": store.workers.deregister(id)}


def stop(store: Store, request: ApiRequest) -> Document:
    worker = store.workers.stop(request.path["id"])
    return _document(request, worker, store.workers.shown(worker))


def _given_fields(body: Struct) -> dict[str, object]:
    """Return the fields of a body that are not None."""
    fields = {name: getattr(body, name) for name in body.__struct_fields__}
    return {
        name: _given_fields(value) if isinstance(value, Struct) else value
        for name, value in fields.items()
        if value is not None
    }


def _document(request: ApiRequest, worker: Worker, shown: str) -> Document:
    document = documents.worker(worker, shown)
    return {**document, "details": documents.worker_details(worker)} if request.query.details else document


ROUTES = (
    Route(
        "GET", "/api/v1/workers", list_workers, READ, "the living workers", list[nouns.Worker],
        query=requests.WorkerFilter,
    ),
    Route(
        "POST", "/api/v1/workers", register, WORK, "register a worker", nouns.Worker, requests.NewWorker,
        requests.Details,
    ),
    Route("GET", "/api/v1/workers/{id}", show, READ, "one worker", nouns.Worker, query=requests.Details, inline=True),
    Route("GET", "/api/v1/workers/{id}/jobs", held, READ, "what it holds", list[nouns.Job], query=requests.Details),
    Route("DELETE", "/api/v1/workers/{id}", deregister, WORK, "deregister it; what it holds goes back", responses.Left),
    Route("GET", "/api/v1/workers/{id}/certificate", certificate, READ, "how it died", nouns.Certificate),
    Route(
        "POST", "/api/v1/workers/{id}/heartbeat", heartbeat, WORK, "send a heartbeat", responses.Advice,
        requests.Heartbeat,
    ),
    Route(
        "POST", "/api/v1/workers/{id}/stop", stop, ADMIN, "ask it to finish and leave", nouns.Worker, requests.Empty,
        requests.Details,
    ),
)  # fmt: skip
