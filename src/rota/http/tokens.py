"""Access tokens over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import wire
from rota.core.access import ADMIN, own_name
from rota.http import asked, shapes
from rota.http.route import Route

if TYPE_CHECKING:
    from rota.http.visit import Visit
    from rota.store.store import Store
    from rota.wire import Document


def list_tokens(store: Store, _: Visit) -> list[Document]:
    return [wire.token(token) for token in store.tokens.list()]


def create(store: Store, visit: Visit) -> Document:
    token, secret = store.tokens.create(own_name(visit.body.name), visit.body.scopes)
    return {**wire.token(token), "secret": secret}


def revoke(store: Store, visit: Visit) -> Document:
    return wire.token(store.tokens.revoke(visit.path["id"]))


ROUTES = (
    Route("GET", "/api/v1/tokens", list_tokens, ADMIN, "access tokens, oldest first", list[shapes.Token]),
    Route("POST", "/api/v1/tokens", create, ADMIN, "make an access token", shapes.MadeToken, asked.NewToken),
    Route("DELETE", "/api/v1/tokens/{id}", revoke, ADMIN, "revoke an access token", shapes.Token),
)
