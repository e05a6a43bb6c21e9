"""What runs here, whether it is well, its metrics, and the way in for a browser."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from rota import documents
from rota.api import metrics as meters
from rota.api.auth import CODE_LASTS, COOKIE, SESSION_LASTS
from rota.api.errors import Unauthenticated
from rota.api.route import HTML, OPEN, TEXT, Route
from rota.api.schemas import requests, responses, views
from rota.core.access import READ
from rota.core.times import format_instant
from rota.core.version import __version__

if TYPE_CHECKING:
    from rota.api.request import Visit
    from rota.documents import Document
    from rota.store.store import Store


def info(store: Store, _: Visit) -> Document:
    hosts, now = store.orchestrators.hosts(), store.now()
    return {
        "version": __version__,
        "worker_enabled": store.queues.is_open(),
        "orchestrators": [documents.orchestrator(each, now) for each in store.orchestrators.live()],
        "slots": [documents.slot(slot, now, hosts, store.settings.restarts) for slot in store.slots.all()],
    }


def clock(store: Store, _: Visit) -> Document:
    return {"now": format_instant(store.now()), "wall": format_instant(store.database.wall())}


async def healthz(_: Visit) -> Document:
    return {"status": "ok"}


def readyz(store: Store, _: Visit) -> Document:
    store.events.last()
    return {"status": "ok"}


async def metrics(visit: Visit) -> Response:
    """Counting writes, so a writer's thread does it."""
    site = visit.site
    told = await site.writers.ask(lambda store: meters.text(store, site.own, site.hub), visit.actor)
    return Response(told, media_type=TEXT)


def openapi(_: Store, visit: Visit) -> Document:
    from rota.api.openapi import document

    return document(visit.site.routes)


def code(_: Store, visit: Visit) -> Document:
    assert visit.token is not None
    code = visit.site.sessions.new_code(visit.token.id, time.time())
    root, host = visit.request.scope.get("root_path", ""), visit.request.headers["host"]
    link = f"{visit.site.proxies.scheme(visit.request)}://{host}{root}/open?code={code}"
    return {"code": code, "link": link, "expires_in": round(CODE_LASTS)}


async def open_link(visit: Visit) -> Response:
    """A code begins a session; it works once."""
    session = visit.site.sessions.begin(visit.query.code, time.time())
    if session is None:
        raise Unauthenticated("this link was used already or is too old: `rota open` makes a new one")
    root = visit.request.scope.get("root_path", "")
    response = RedirectResponse(f"{root}/", 303)
    secure = visit.site.proxies.scheme(visit.request) == "https"
    response.set_cookie(
        COOKIE, session, round(SESSION_LASTS), path=f"{root}/", secure=secure, httponly=True, samesite="strict"
    )
    return response


def me(_: Store, visit: Visit) -> Document:
    assert visit.token is not None
    return {"id": visit.token.id, "name": visit.token.name, "scopes": sorted(visit.token.scopes)}


ROUTES = (
    Route("GET", "/api/v1/info", info, OPEN, "what runs here", responses.Info),
    Route("GET", "/api/v1/clock", clock, OPEN, "what time it is to the store", responses.Clock),
    Route("GET", "/api/v1/openapi.json", openapi, READ, "this API, described", dict),
    Route("GET", "/api/v1/me", me, READ, "who asks, and what they may", views.Me),
    Route("POST", "/api/v1/codes", code, READ, "a one-time code for a browser", responses.Code, requests.Empty),
    Route("GET", "/healthz", healthz, OPEN, "whether the process answers", responses.Alive, is_async=True),
    Route("GET", "/readyz", readyz, OPEN, "whether the store answers too", responses.Alive),
    Route("GET", "/metrics", metrics, OPEN, "metrics for Prometheus", str, media=TEXT, is_async=True),
    Route(
        "GET", "/open", open_link, OPEN, "begin a browser's session", str, query=requests.Link, media=HTML,
        is_async=True, public=True, once=True,
    ),
)  # fmt: skip
