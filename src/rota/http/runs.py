"""Runs over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import wire
from rota.core.access import READ
from rota.http import shapes
from rota.http.route import Route

if TYPE_CHECKING:
    from rota.http.visit import Visit
    from rota.store.store import Store
    from rota.wire import Document


def show(store: Store, visit: Visit) -> Document:
    return wire.run(store.claims.run(visit.path["id"]))


ROUTES = (Route("GET", "/api/v1/runs/{id}", show, READ, "what one claim did", shapes.Run),)
