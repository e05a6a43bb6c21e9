"""Runs over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import documents
from rota.api.route import Route
from rota.api.schemas import nouns
from rota.core.access import READ

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store


def show(store: Store, request: ApiRequest) -> Document:
    return documents.run(store.claims.run(request.path["id"]))


ROUTES = (Route("GET", "/api/v1/runs/{id}", show, READ, "what one claim did", nouns.Run),)
