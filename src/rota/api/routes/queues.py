"""Queues over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from rota import documents
from rota.api.route import Route
from rota.api.routes.jobs import wait_until_acknowledged
from rota.api.schemas import nouns, requests, responses
from rota.core.access import ADMIN, READ
from rota.core.errors import BadInput, NotFound
from rota.core.ids import queue_name
from rota.process.host import host_id

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store


def list_queues(store: Store, _: ApiRequest) -> list[Document]:
    return [documents.queue(status) for status in store.queues.list()]


def show(store: Store, request: ApiRequest) -> Document:
    return _find(store, request.path["name"])


def set_limits(store: Store, request: ApiRequest) -> Document:
    fields = {name: getattr(request.body, name) for name in requests.Limits.__struct_fields__}
    limits = {name: value for name, value in fields.items() if value is not UNSET}
    if not limits:
        raise BadInput('there is no limit to set: send for example {"max_depth": 1000}; null removes one')
    return _find(store, store.queues.set(request.path["name"], **limits).name)


async def pause(request: ApiRequest) -> Document:
    """Pause, and answer once no orchestrator starts jobs any more."""
    name = request.body.queue
    paused = await request.ask(lambda store: store.queues.pause(name, request.body.reason))
    await wait_until_acknowledged(request, f"{name or 'everything'} is paused")
    return {"paused": paused}


def resume(store: Store, request: ApiRequest) -> Document:
    return {"resumed": store.queues.resume(request.body.queue)}


def scale(store: Store, request: ApiRequest) -> Document:
    name, body = queue_name(request.path["name"]), request.body
    host = store.orchestrators.host_named(body.host) if body.host else host_id()
    store.slots.scale(body.crew, host, name, body.count)
    return {"queue": name, "count": body.count, "crew": body.crew}


def _find(store: Store, name: str) -> Document:
    for status in store.queues.list():
        if status.queue.name == name:
            return documents.queue(status)
    raise NotFound(f"there is no queue {name}: a queue comes to be with its first job")


ROUTES = (
    Route(
        "GET", "/api/v1/queues", list_queues, READ, "queues with their counts and limits", list[nouns.Queue],
        inline=True,
    ),
    Route(
        "POST", "/api/v1/queues/pause", pause, ADMIN, "let nothing new be claimed, from one queue or from all",
        responses.Paused, requests.Pause, is_async=True,
    ),
    Route("POST", "/api/v1/queues/resume", resume, ADMIN, "the opposite of pause", responses.Resumed, requests.Resume),
    Route("GET", "/api/v1/queues/{name}", show, READ, "one queue", nouns.Queue, inline=True),
    Route("PATCH", "/api/v1/queues/{name}", set_limits, ADMIN, "set limits of a queue", nouns.Queue, requests.Limits),
    Route(
        "POST", "/api/v1/queues/{name}/scale", scale, ADMIN,
        "how many workers of it the crew on this host should have", responses.Scaled, requests.Scale,
    ),
)  # fmt: skip
