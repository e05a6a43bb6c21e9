"""Sources over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import documents
from rota.api.route import Route
from rota.api.schemas import nouns, responses
from rota.core.access import ADMIN, READ

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store


def list_sources(store: Store, _: ApiRequest) -> list[Document]:
    return [documents.source(status) for status in store.sources.list()]


def show(store: Store, request: ApiRequest) -> Document:
    name = store.sources.get(request.path["name"]).name
    return next(documents.source(status) for status in store.sources.list() if status.source.name == name)


def forget(store: Store, request: ApiRequest) -> Document:
    name = request.path["name"]
    return {"name": name, "jobs": store.sources.forget(name)}


_ONE = "/api/v1/sources/{name}"
ROUTES = (
    Route("GET", "/api/v1/sources", list_sources, READ, "sources with their progress", list[nouns.Source]),
    Route("GET", _ONE, show, READ, "one source", nouns.Source),
    Route("DELETE", _ONE, forget, ADMIN, "remove it with its counters and what waits", responses.Forgotten),
)
