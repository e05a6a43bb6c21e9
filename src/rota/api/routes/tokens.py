"""Access tokens over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import documents
from rota.api.route import Route
from rota.api.schemas import nouns, requests
from rota.core.access import ADMIN, own_name

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store


def list_tokens(store: Store, _: ApiRequest) -> list[Document]:
    return [documents.token(token) for token in store.tokens.list()]


def create(store: Store, request: ApiRequest) -> Document:
    token, secret = store.tokens.create(own_name(request.body.name), request.body.scopes)
    return {**documents.token(token), "secret": secret}


def revoke(store: Store, request: ApiRequest) -> Document:
    return documents.token(store.tokens.revoke(request.path["id"]))


ROUTES = (
    Route("GET", "/api/v1/tokens", list_tokens, ADMIN, "access tokens, oldest first", list[nouns.Token]),
    Route("POST", "/api/v1/tokens", create, ADMIN, "make an access token", nouns.MadeToken, requests.NewToken),
    Route("DELETE", "/api/v1/tokens/{id}", revoke, ADMIN, "revoke an access token", nouns.Token),
)  # fmt: skip
