"""Workers over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import wire
from rota.core.access import ADMIN, READ, WORK
from rota.core.errors import NotFound
from rota.core.times import SECOND
from rota.http import shapes
from rota.http.route import Route

if TYPE_CHECKING:
    from rota.core.worker import Worker
    from rota.http.visit import Visit
    from rota.store.store import Store
    from rota.wire import Document


def register(store: Store, visit: Visit) -> Document:
    every = None if visit.body.every is None else round(visit.body.every * SECOND)
    access = visit.token.id if visit.token else None
    worker = store.workers.register(visit.body.name, every, queue=visit.body.queue, access=access)
    return wire.worker(worker, worker.status)


def list_workers(store: Store, visit: Visit) -> list[Document]:
    return [_document(store, worker) for worker in store.workers.list(visit.query.all)]


def show(store: Store, visit: Visit) -> Document:
    return _document(store, store.workers.get(visit.path["id"]))


def certificate(store: Store, visit: Visit) -> Document:
    found = store.workers.certificate(store.workers.get(visit.path["id"]).id)
    if found is None:
        raise NotFound(f"{visit.path['id']} has not died")
    return wire.certificate(found)


def heartbeat(store: Store, visit: Visit) -> Document:
    id = visit.path["id"]
    visit.speak_for(store, id if _is_known(store, id) else None)
    told = {name: getattr(visit.body, name) for name in shapes.Beat.__struct_fields__}
    metrics = {name: value for name, value in told.items() if value is not None}
    return {"id": id, "advice": store.workers.heartbeat(id, metrics)}


def deregister(store: Store, visit: Visit) -> Document:
    id = visit.path["id"]
    visit.speak_for(store, id if _is_known(store, id) else None)
    return {"id": id, "released": store.workers.deregister(id)}


def stop(store: Store, visit: Visit) -> Document:
    return _document(store, store.workers.stop(visit.path["id"]))


def _is_known(store: Store, id: str) -> bool:
    try:
        return bool(store.workers.get(id))
    except NotFound:  # the store tells it to register again
        return False


def _document(store: Store, worker: Worker) -> Document:
    return wire.worker(worker, store.workers.shown(worker))


ROUTES = (
    Route(
        "GET",
        "/api/v1/workers",
        list_workers,
        READ,
        "the living workers",
        list[shapes.Worker],
        query=shapes.WorkerFilter,
    ),
    Route("POST", "/api/v1/workers", register, WORK, "begin a worker's life", shapes.Worker, shapes.NewWorker),
    Route("GET", "/api/v1/workers/{id}", show, READ, "one worker", shapes.Worker),
    Route("DELETE", "/api/v1/workers/{id}", deregister, WORK, "end its life; what it holds goes back", shapes.Left),
    Route("GET", "/api/v1/workers/{id}/certificate", certificate, READ, "how it died", shapes.Certificate),
    Route("POST", "/api/v1/workers/{id}/heartbeat", heartbeat, WORK, "a sign of life", shapes.Advice, shapes.Beat),
    Route("POST", "/api/v1/workers/{id}/stop", stop, ADMIN, "ask it to finish and leave", shapes.Worker, shapes.Empty),
)
