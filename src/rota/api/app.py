"""The ASGI app: mount it in your own, or let `rota serve` run it alone."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.routing import Router

from rota.api import dashboard, errors
from rota.api.auth import Proxies, Sessions
from rota.api.errors import NotHere, TooMany, WrongMethod
from rota.api.json_body import encode_document
from rota.api.metrics import ProcessMetrics
from rota.api.middleware import LOOPBACK, RequestChecks, own_path, refuse_other_media
from rota.api.request import ApiRequest
from rota.api.route import JSON, SSE
from rota.api.routes import (
    claims,
    crews,
    events,
    info,
    jobs,
    orchestrators,
    overview,
    producers,
    queues,
    runs,
    tokens,
    workers,
)
from rota.api.store_pool import EnqueueBatcher, StorePool
from rota.api.stream.hub import Hub
from rota.api.stream.notifications import Notifications, NotificationStream
from rota.api.stream.readers import Stream
from rota.core.errors import RotaError
from rota.core.times import SECOND
from rota.settings import load
from rota.store.open import POSTGRES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from rota.api.route import Route
    from rota.core.access import AccessToken
    from rota.settings import Settings


ROUTES: tuple[Route, ...] = (
    *info.ROUTES, *jobs.ROUTES, *claims.ROUTES, *workers.ROUTES, *crews.SLOTS, *queues.ROUTES, *producers.SOURCES,
    *producers.SCHEDULES, *crews.ORCHESTRATOR, *runs.RUNS, *runs.OUTPUT, *events.ROUTES, *overview.ATTENTION,
    *overview.THROUGHPUT, *overview.TRACKING, *tokens.ROUTES, *orchestrators.EXCHANGE, *orchestrators.ORCHESTRATORS,
    *orchestrators.ORPHANS, *dashboard.ROUTES,
)  # fmt: skip
READERS, WRITERS = 2, 2
MOST_OPEN = 300
_NOTED_EVERY, _CLOSED_WITHIN = 60.0, 2.0
_log = logging.getLogger("rota.http")


class OpenRequests:
    """Limits how many requests of one token wait for jobs, output or notifications: each wakes up with every change."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def begin(self, token: AccessToken | None) -> None:
        """Count one more request of a token, or refuse it."""
        id = token.id if token else ""
        if self._counts[id] >= MOST_OPEN:
            raise TooMany(f"this token has {MOST_OPEN:,} waiting requests open already: try again when one has ended")
        self._counts[id] += 1

    def end(self, token: AccessToken | None) -> None:
        id = token.id if token else ""
        self._counts[id] -= 1
        if not self._counts[id]:
            del self._counts[id]

    @contextmanager
    def one(self, token: AccessToken | None) -> Iterator[None]:
        """Count a request for as long as the block lasts."""
        self.begin(token)
        try:
            yield
        finally:
            self.end(token)


class AppState:
    """What one app keeps for one database. Connections are opened when they are first needed."""

    def __init__(
        self, url: str | None, settings: Settings, routes: tuple[Route, ...], key: bytes | None = None
    ) -> None:
        self.settings = settings
        self.routes = routes
        self.is_sqlite = url is None or not url.startswith(POSTGRES)
        self.readers = StorePool(url, settings, READERS, "read")
        # SQLite has one writer at a time: a second thread would only wait for its lock (decision 26).
        self.writers = StorePool(url, settings, 1 if self.is_sqlite else WRITERS, "write")
        self.enqueue_batcher = EnqueueBatcher(self.writers)
        self._feed_pool = StorePool(url, settings, 1, "feed")
        self.sessions = Sessions(key)
        self.proxies = Proxies(settings.http_proxies)
        self.job_notifications = Notifications(self.readers, events=False)
        self.open_requests = OpenRequests()
        self.authentications: dict[object, asyncio.Future[Any]] = {}
        self.ready_checks: dict[object, asyncio.Future[Any]] = {}
        self.process_metrics = ProcessMetrics()
        self.hub = Hub(self._feed_pool, settings.poll_interval / SECOND, self.process_metrics)
        self._noted: dict[str, float] = {}
        self._noting: set[asyncio.Task[None]] = set()

    def note_use(self, token: AccessToken | None) -> None:
        """Record in the store that a token was used, at most once a minute, without delaying the request."""
        now = time.monotonic()
        if token is None or now - self._noted.get(token.id, -_NOTED_EVERY) < _NOTED_EVERY:
            return
        self._noted[token.id] = now
        task = asyncio.create_task(self._note(token))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _note(self, token: AccessToken) -> None:
        await self.writers.ask(lambda store: store.tokens.used(token))

    async def close(self) -> None:
        """End streams, threads and connections. A thread that still waits for the write lock is abandoned."""
        await self.hub.close()
        self.job_notifications.close()
        pools = (self.readers, self.writers, self._feed_pool)
        closing = [threading.Thread(target=pool.close, daemon=True) for pool in pools]
        for thread in closing:
            thread.start()
        deadline = time.monotonic() + _CLOSED_WITHIN
        while any(thread.is_alive() for thread in closing) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)


def create(
    url: str | None = None,
    settings: Settings | None = None,
    hosts: Iterable[str] = LOOPBACK,
    key: bytes | None = None,
) -> Api:
    """Create the app for a database.

    Args:
        url: The database. Without it the setting `db`, else the nearest `.rota`.
        settings: Defaults to those of the environment and the nearest `rota.toml`.
        hosts: The names accepted in the Host header.
        key: Signs browser sessions. Without it, they end with this app.
    """
    settings = settings or load()
    return Api(AppState(url or settings.db, settings, ROUTES, key), hosts)


class Api:
    """The API of one database. An app that mounts it must call `close` when it ends."""

    def __init__(self, state: AppState, hosts: Iterable[str]) -> None:
        self._state = state
        paths: dict[str, dict[str, Route]] = {}
        for route in state.routes:
            paths.setdefault(route.path, {})[route.method] = route
        methods = {path: _Methods(state, path, table) for path, table in paths.items()}
        self._app: ASGIApp = RequestChecks(_Paths(methods, self._lifespan), hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def new_code(self, token_id: str, now: float) -> str:
        """Make a one-time code that begins a browser session for this token."""
        return self._state.sessions.new_code(token_id, now)

    async def end_streams(self) -> None:
        """End all streams; other requests go on."""
        self._state.job_notifications.end()
        await self._state.hub.close()

    async def close(self) -> None:
        """End streams, threads and connections."""
        await self._state.close()

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        yield
        await self.close()


class _Paths:
    """Dispatches by noun and number of path segments first; the few routes left are matched one by one."""

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
    """Dispatches the methods of one path, and turns errors into problem documents."""

    def __init__(self, state: AppState, path: str, table: dict[str, Route]) -> None:
        self._state = state
        self._path = path
        self._table = table

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request = Request(scope, receive)
        response: Response | Stream | NotificationStream
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except RotaError as refusal:
            response = dashboard.closed(refusal, request, self._table) or errors.response(refusal)
        except Exception:
            _log.exception("a bug in rota: %s %s", request.method, request.url.path)
            response = errors.response(RotaError("a bug in rota: the server's log has the details"))
        status = 200 if isinstance(response, Stream | NotificationStream) else response.status_code
        method = request.method if request.method in self._table else "other"
        self._state.process_metrics.count_request(method, self._path, status, time.perf_counter() - began)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response | Stream | NotificationStream:
        method = "GET" if request.method == "HEAD" else request.method
        route = self._table.get(method)
        if route is None or (request.method == "HEAD" and (route.single_use or route.media == SSE)):
            get = self._table.get("GET")
            heads = ["HEAD"] if get is not None and not (get.single_use or get.media == SSE) else []
            allow = ", ".join(sorted([*self._table, *heads]))
            raise WrongMethod(f"{request.method[:20]} cannot be done here: {allow} can", allow)
        if route.body is not None:
            refuse_other_media(request)
        answer = await ApiRequest(self._state, route, request).answer()
        if isinstance(answer, Response | Stream | NotificationStream):
            return answer
        return Response(encode_document(answer), media_type=JSON)


def _kind(path: str) -> tuple[int, str]:
    """Return the number of segments of a path, and its noun below `/api/v1`."""
    parts = path.split("/")
    return len(parts), parts[3] if path.startswith("/api/v1/") else ""


def _by_rank(entry: tuple[str, _Methods]) -> tuple[bool, str]:
    """Sort paths without parameters first, so that `/jobs/ready` is not taken for the id of a job."""
    return "{" in entry[0], entry[0]


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    refusal = NotHere(f"there is nothing at {scope['path'][:200]!r}: /api/v1/openapi.json describes what is")
    await errors.response(refusal)(scope, receive, send)
