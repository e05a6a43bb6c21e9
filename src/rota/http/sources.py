"""Sources over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import wire
from rota.core.access import ADMIN, READ
from rota.http import replies, shapes
from rota.http.route import Route

if TYPE_CHECKING:
    from rota.http.visit import Visit
    from rota.store.store import Store
    from rota.wire import Document


def list_sources(store: Store, _: Visit) -> list[Document]:
    return [wire.source(status) for status in store.sources.list()]


def show(store: Store, visit: Visit) -> Document:
    wanted = store.sources.get(visit.path["name"]).name
    return next(wire.source(status) for status in store.sources.list() if status.source.name == wanted)


def forget(store: Store, visit: Visit) -> Document:
    name = visit.path["name"]
    return {"name": name, "jobs": store.sources.forget(name)}


_ONE = "/api/v1/sources/{name}"
ROUTES = (
    Route("GET", "/api/v1/sources", list_sources, READ, "sources with their progress", list[shapes.Source]),
    Route("GET", _ONE, show, READ, "one source", shapes.Source),
    Route("DELETE", _ONE, forget, ADMIN, "remove it with its counters and what waits", replies.Forgotten),
)
