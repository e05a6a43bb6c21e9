"""One authenticated request: its parsed path, query and body, and access to the store as its caller."""

from __future__ import annotations

import asyncio
import time
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import msgspec
from starlette.responses import Response

from rota.api.auth import authorise
from rota.api.json_body import decode_body, encode_document
from rota.api.middleware import LARGEST_BODY, read_body
from rota.api.route import JSON
from rota.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from rota.api.app import AppState
    from rota.api.route import Route
    from rota.api.store_pool import StorePool
    from rota.core.access import AccessToken
    from rota.store.store import Store

T = TypeVar("T")
_SMALL = 64 * 1024


class ApiRequest:
    """What a handler gets. `body` and `query` have the route's types; `path` holds the parameters of its path."""

    def __init__(self, state: AppState, route: Route, http: Request) -> None:
        self.state = state
        self.route = route
        self.http = http
        self.path: dict[str, str] = http.path_params
        self.token: AccessToken | None = None
        self.body: Any = None
        self._data = b""
        self.query: Any = read_query(route, http)

    async def answer(self) -> Any:
        """Authenticate the caller and run the route's handler."""
        if self.route.body is not None and not self._is_small:
            await self._pool.ask(self._authorise)
        if self.route.body is not None:
            self._data = await read_body(self.http)
        # With one writer, jobs that are added one by one share its transactions (decision 26).
        run = self.route.run if self.route.is_async else self.route.on_sqlite if self.state.is_sqlite else None
        if run is not None:
            if not self._is_open:
                await self.ask_inline(self._prepare)
            answer = await run(self)
        elif self.route.inline and self.state.is_sqlite:
            answer = await self._pool.ask_inline(self._prepare_and_run)
        else:
            answer = await self._pool.ask(self._prepare_and_run)
        self.state.note_use(self.token)
        return answer

    async def ask(self, function: Callable[[Store], T]) -> T:
        """Call a function with a store in a thread, as the caller.

        The caller is authenticated again each time: its token may have been revoked while the request waited.
        """
        return await self._pool.ask(partial(self._run_authorised, function))

    async def ask_inline(self, function: Callable[[Store], T]) -> T:
        """Call a function that only reads, and mostly briefly: on SQLite in the event loop itself."""
        run = partial(self._run_as_caller, function)
        return await (self.state.readers.ask_inline(run) if self.state.is_sqlite else self._pool.ask(run))

    async def reauthenticate(self) -> None:
        """Refuse a caller whose token no longer allows this."""
        await self._pool.ask(self._authorise)

    async def reauthenticate_shared(self) -> None:
        """Authenticate again, with one query for all waiting requests of the token: they are woken together."""
        key = (self.token and self.token.id, self.route.scope)
        await share_call(self.state.authentications, key, self.reauthenticate)

    @property
    def actor(self) -> str:
        """The actor of this request's events in the log."""
        return "http" if self.token is None else f"{self.token.name}@http"

    @property
    def _pool(self) -> StorePool:
        return self.state.readers if self.route.method == "GET" else self.state.writers

    @property
    def _is_open(self) -> bool:
        """Whether the caller needs no token. Such a request is answered even if the store is unavailable."""
        return self.route.public or (self.route.scope is None and self.state.proxies.is_local(self.http))

    def _authorise(self, store: Store) -> None:
        if not self._is_open:
            self.token = authorise(store, self.state.sessions, self.http, self.route.scope, time.time())

    @property
    def _is_small(self) -> bool:
        """Whether the body may be read before the caller is authenticated, which saves a turn to a thread."""
        return int(self.http.headers.get("content-length", LARGEST_BODY)) <= _SMALL

    def _prepare(self, store: Store) -> None:
        """Authenticate the caller, and only then parse the body."""
        self._authorise(store)
        if self.route.body is not None:
            self.body = decode_body(self._data, self.route.body)

    def _prepare_and_run(self, store: Store) -> Any:
        if self.route.method == "GET" and not self.route.may_write:
            # One snapshot for all statements (decision 17), and the index of the SQLite log is read only once.
            with store.database.read():
                return self._run(store)
        return self._run(store)

    def _run(self, store: Store) -> Any:
        self._prepare(store)
        answer = self._run_as_caller(lambda store: self.route.run(store, self), store)
        # Encoded in this thread: a long list would hold up the event loop.
        return answer if isinstance(answer, Response) else Response(encode_document(answer), media_type=JSON)

    def _run_authorised(self, function: Callable[[Store], T], store: Store) -> T:
        self._authorise(store)
        return self._run_as_caller(function, store)

    def _run_as_caller(self, function: Callable[[Store], T], store: Store) -> T:
        """Record changes under the caller's name, and let the store check what the caller's token may touch."""
        store.actor, store.access = self.actor, self.token
        return function(store)


async def share_call(calls: dict[object, asyncio.Future[Any]], key: object, call: Callable[[], Awaitable[T]]) -> T:
    """Join the running call of this key, or start one. A caller that comes after its end starts another."""
    if key not in calls:
        calls[key] = asyncio.ensure_future(call())
        calls[key].add_done_callback(lambda _: calls.pop(key))
    result: T = await asyncio.shield(calls[key])
    return result


def read_query(route: Route, http: Request) -> Any:
    """Parse the query into the route's type. Values of a list are repeated or separated by commas."""
    values: dict[str, Any] = {}
    parameters = _parameters(route.query) if route.query else {}
    for name, text in http.query_params.multi_items():
        if name not in parameters:
            allowed = f"known are {', '.join(parameters)}" if parameters else "there are none"
            raise BadInput(f"there is no parameter {name[:50]!r} here: {allowed}")
        kinds = parameters[name]
        if list in kinds:
            values.setdefault(name, []).extend(text.split(","))
        elif name in values:
            raise BadInput(f"query parameter {name!r} was given more than once")
        else:
            values[name] = _value(name, text, kinds)
    if route.query is None:
        return None
    try:
        query = msgspec.convert(values, route.query)
    except msgspec.ValidationError as problem:
        raise BadInput(f"the query makes no sense: {problem}") from None
    for name in (name for name, value in values.items() if isinstance(value, list)):
        setattr(query, name, [part for part in getattr(query, name) if part])
    return query


@cache
def _parameters(query: type[msgspec.Struct]) -> dict[str, set[Any]]:
    """Return the plain types of each parameter of a query."""
    return {field.name: _kinds(field.type) for field in msgspec.structs.fields(query)}


def _kinds(type: Any) -> set[Any]:
    """Return the plain types within a type."""
    if get_origin(type) is list:
        return {list}
    inner = get_args(type)[:1] if get_origin(type) is Annotated else get_args(type)
    return {type} if not inner else {kind for part in inner for kind in _kinds(part)}


def _value(name: str, text: str, kinds: set[Any]) -> str | int | bool:
    """Convert the text of a parameter. `null` stays text, because it is a valid name of a queue."""
    if int in kinds:
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
        raise BadInput(f"{name}: {text[:50]!r} is not a whole number")
    if bool in kinds:
        if text in ("true", "false"):
            return text == "true"
        raise BadInput(f"{name} is true or false, not {text[:50]!r}")
    return text
