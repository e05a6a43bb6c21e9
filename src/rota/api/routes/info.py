"""Version and state of the system, health checks, metrics, the API's description, and browser sessions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from rota import documents
from rota.api import metrics as meters
from rota.api.auth import CODE_LASTS, COOKIE, SESSION_LASTS
from rota.api.errors import Unauthenticated
from rota.api.route import HTML, OPEN, TEXT, Route
from rota.api.schemas import requests, responses
from rota.core.access import READ
from rota.core.times import format_instant
from rota.core.version import __version__

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store


def info(store: Store, _: ApiRequest) -> Document:
    hosts, now = store.orchestrators.hosts(), store.now()
    return {
        "version": __version__,
        "worker_enabled": store.queues.is_open(),
        "orchestrators": [documents.orchestrator(each, now) for each in store.orchestrators.live()],
        "slots": [documents.slot(slot, now, hosts, store.settings.restarts) for slot in store.slots.all()],
    }


def clock(store: Store, _: ApiRequest) -> Document:
    return {"now": format_instant(store.now()), "wall": format_instant(store.database.wall())}


async def healthz(_: ApiRequest) -> Document:
    return {"status": "ok"}


def readyz(store: Store, _: ApiRequest) -> Document:
    store.events.last()
    return {"status": "ok"}


async def metrics(request: ApiRequest) -> Response:
    """Return the metrics. Measuring the write lock takes it, so this runs in a writer's thread."""
    state = request.state
    text = await state.writers.ask(lambda store: meters.text(store, state.process_metrics, state.hub), request.actor)
    return Response(text, media_type=TEXT)


def openapi(_: Store, request: ApiRequest) -> Document:
    from rota.api.openapi import document

    return document(request.state.routes)


def code(_: Store, request: ApiRequest) -> Document:
    assert request.token is not None
    code = request.state.sessions.new_code(request.token.id, time.time())
    root, host = request.http.scope.get("root_path", ""), request.http.headers["host"]
    link = f"{request.state.proxies.scheme(request.http)}://{host}{root}/open?code={code}"
    return {"code": code, "link": link, "expires_in": round(CODE_LASTS)}


async def open_link(request: ApiRequest) -> Response:
    """Begin a session. A code works once."""
    session = request.state.sessions.begin(request.query.code, time.time())
    if session is None:
        raise Unauthenticated("this link was used already or is too old: `rota open` makes a new one")
    root = request.http.scope.get("root_path", "")
    response = RedirectResponse(f"{root}/", 303)
    secure = request.state.proxies.scheme(request.http) == "https"
    response.set_cookie(
        COOKIE, session, round(SESSION_LASTS), path=f"{root}/", secure=secure, httponly=True, samesite="strict"
    )
    return response


def me(_: Store, request: ApiRequest) -> Document:
    assert request.token is not None
    return {"id": request.token.id, "name": request.token.name, "scopes": sorted(request.token.scopes)}


ROUTES = (
    Route("GET", "/api/v1/info", info, OPEN, "what runs here", responses.Info),
    Route("GET", "/api/v1/clock", clock, OPEN, "the clocks of the store", responses.Clock),
    Route("GET", "/api/v1/openapi.json", openapi, READ, "this API, described", dict),
    Route("GET", "/api/v1/me", me, READ, "the caller's token and its scopes", responses.Me),
    Route("POST", "/api/v1/codes", code, READ, "a one-time code for a browser", responses.Code, requests.Empty),
    Route("GET", "/healthz", healthz, OPEN, "whether the process answers", responses.Alive, is_async=True),
    Route("GET", "/readyz", readyz, OPEN, "whether the store answers too", responses.Alive),
    Route("GET", "/metrics", metrics, OPEN, "metrics for Prometheus", str, media=TEXT, is_async=True),
    Route(
        "GET", "/open", open_link, OPEN, "begin a browser's session", str, query=requests.Link, media=HTML,
        is_async=True, public=True, single_use=True,
    ),
)  # fmt: skip
