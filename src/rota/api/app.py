"""The ASGI app: mount it in your own, or let `rota serve` run it alone."""

from __future__ import annotations

import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.routing import Router

from rota.api import dashboard, errors
from rota.api.app_state import Site
from rota.api.errors import NotHere, WrongMethod
from rota.api.json import dump
from rota.api.middleware import LOOPBACK, Guard, own_path, refuse_other_media
from rota.api.request import Visit
from rota.api.route import JSON, SSE
from rota.api.routes import (
    attention,
    claims,
    events,
    exchange,
    info,
    jobs,
    orchestrator,
    orchestrators,
    orphans,
    output,
    queues,
    runs,
    schedules,
    slots,
    sources,
    throughput,
    tokens,
    tracking,
    workers,
)
from rota.api.stream.notification_stream import Ringing
from rota.api.stream.sse import Stream
from rota.core.errors import RotaError
from rota.settings import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from rota.api.route import Route
    from rota.settings import Settings

NOUNS = (
    info, jobs, claims, workers, slots, queues, sources, schedules, orchestrator, runs, output, events, attention,
    throughput, tracking, tokens, exchange, orchestrators, orphans, dashboard,
)  # fmt: skip
ROUTES: tuple[Route, ...] = tuple(route for noun in NOUNS for route in noun.ROUTES)
_log = logging.getLogger("rota.http")


def create(
    url: str | None = None,
    settings: Settings | None = None,
    hosts: Iterable[str] = LOOPBACK,
    key: bytes | None = None,
) -> Api:
    """The app over the database that `url` names, or the nearest `.rota`. `hosts` are the names that it answers to.

    `key` signs the sessions of browsers: those of an app without one end with it.
    """
    settings = settings or load()
    return Api(Site(url or settings.db, settings, ROUTES, key), hosts)


class Api:
    """The API of one database. An app that mounts it calls `close` when it ends."""

    def __init__(self, site: Site, hosts: Iterable[str]) -> None:
        self._site = site
        paths: dict[str, dict[str, Route]] = {}
        for route in site.routes:
            paths.setdefault(route.path, {})[route.method] = route
        every = {path: _Methods(site, path, table) for path, table in paths.items()}
        self._app: ASGIApp = Guard(_Paths(every, self._lifespan), hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def new_code(self, token_id: str, now: float) -> str:
        """A one-time code that begins a browser's session of this token."""
        return self._site.sessions.new_code(token_id, now)

    async def end_streams(self) -> None:
        """Let every stream end; what else is under way goes on."""
        self._site.work.end()
        await self._site.hub.close()

    async def close(self) -> None:
        """End streams, threads and connections."""
        await self._site.close()

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        yield
        await self.close()


class _Paths:
    """All paths, by their noun and by how many parts they have: the few left are told apart one by one."""

    def __init__(self, paths: dict[str, _Methods], lifespan: Any) -> None:
        ranked = [Path(path, methods, methods=None) for path, methods in sorted(paths.items(), key=_by_rank)]
        self._none = Router(redirect_slashes=False, default=_not_found, lifespan=lifespan)
        self._routers = {
            kind: Router([each for each in ranked if _kind(each.path) == kind], False, _not_found)
            for kind in {_kind(each.path) for each in ranked}
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = _kind(own_path(scope)) if scope["type"] == "http" else (0, "")
        await self._routers.get(kind, self._none)(scope, receive, send)


class _Methods:
    """All routes of one path."""

    def __init__(self, site: Site, path: str, table: dict[str, Route]) -> None:
        self._site = site
        self._path = path
        self._table = table

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request = Request(scope, receive)
        response: Response | Stream | Ringing
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except RotaError as refusal:
            response = dashboard.closed(refusal, request, self._table) or errors.response(refusal)
        except Exception:
            _log.exception("a bug in rota: %s %s", request.method, request.url.path)
            response = errors.response(RotaError("a bug in rota: the server's log has the details"))
        status = 200 if isinstance(response, Stream | Ringing) else response.status_code
        method = request.method if request.method in self._table else "other"
        self._site.own.answered(method, self._path, status, time.perf_counter() - began)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response | Stream | Ringing:
        method = "GET" if request.method == "HEAD" else request.method
        route = self._table.get(method)
        if route is None or (request.method == "HEAD" and (route.once or route.media == SSE)):
            get = self._table.get("GET")
            heads = ["HEAD"] if get is not None and not (get.once or get.media == SSE) else []
            allow = ", ".join(sorted([*self._table, *heads]))
            raise WrongMethod(f"{request.method[:20]} cannot be done here: {allow} can", allow)
        if route.body is not None:
            refuse_other_media(request)
        answer = await Visit(self._site, route, request).answer()
        if isinstance(answer, Response | Stream | Ringing):
            return answer
        return Response(dump(answer), media_type=JSON)


def _kind(path: str) -> tuple[int, str]:
    """How deep it is, and below `/api/v1` its noun."""
    parts = path.split("/")
    return len(parts), parts[3] if path.startswith("/api/v1/") else ""


def _by_rank(entry: tuple[str, _Methods]) -> tuple[bool, str]:
    """Paths without names in them first, so that `/jobs/ready` is not a job; then in order."""
    return "{" in entry[0], entry[0]


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    refusal = NotHere(f"there is nothing at {scope['path'][:200]!r}: /api/v1/openapi.json describes what is")
    await errors.response(refusal)(scope, receive, send)
