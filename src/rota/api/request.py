"""One request that may do what it asks for: what it says, and the way to the store in its name."""

from __future__ import annotations

import asyncio
import time
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import msgspec
from starlette.responses import Response

from rota.api.auth import authorise
from rota.api.json import dump
from rota.api.middleware import LARGEST_BODY, read_body, refuse_deep
from rota.api.route import JSON
from rota.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from rota.api.app_state import Site
    from rota.api.route import Route
    from rota.api.store_pool import Stores
    from rota.core.access import AccessToken
    from rota.store.store import Store

Found = TypeVar("Found")
_SMALL = 64 * 1024


class Visit:
    """What a handler gets. `body` and `query` are of the route's types; `path` are the names in its path."""

    def __init__(self, site: Site, route: Route, request: Request) -> None:
        self.site = site
        self.route = route
        self.request = request
        self.path: dict[str, str] = request.path_params
        self.token: AccessToken | None = None
        self.body: Any = None
        self._data = b""
        self.query: Any = read_query(route, request)

    async def answer(self) -> Any:
        """What the route answers, if whoever asks may."""
        if self.route.body is not None and not self._is_small:
            await self._threads.ask(self._authorise)
        if self.route.body is not None:
            self._data = await read_body(self.request)
        run = self.route.run if self.route.is_async else self.route.near if self.site.is_near else None
        if run is not None:
            if not self._is_open:
                await self.look(self._prepare)
            answer = await run(self)
        elif self.route.quick and self.site.is_near:
            answer = await self._threads.glance(self._prepared_run)
        else:
            answer = await self._threads.ask(self._prepared_run)
        self.site.note_use(self.token)
        return answer

    async def ask(self, function: Callable[[Store], Found]) -> Found:
        """What a function of the store answers, in the name of whoever asks, who proves it again each time.

        A request may have waited since it last asked, and its token may have been revoked meanwhile.
        """
        return await self._threads.ask(partial(self._as_proved_caller, function))

    async def look(self, function: Callable[[Store], Found]) -> Found:
        """The same for what only looks, and mostly for a moment."""
        asked = partial(self._as_caller, function)
        return await (self.site.readers.glance(asked) if self.site.is_near else self._threads.ask(asked))

    async def prove(self) -> None:
        """Refuse whoever may not ask this any more."""
        await self._threads.ask(self._authorise)

    async def prove_with_others(self) -> None:
        """The same; all requests of a token that wait are woken at once, so they share the answer to come."""
        await together(self.site.proofs, (self.token and self.token.id, self.route.scope), self.prove)

    @property
    def actor(self) -> str:
        """Who the event log says it was."""
        return "http" if self.token is None else f"{self.token.name}@http"

    @property
    def _threads(self) -> Stores:
        return self.site.readers if self.route.method == "GET" else self.site.writers

    @property
    def _is_open(self) -> bool:
        """Whether nobody need say who they are; the store may be away then."""
        return self.route.public or (self.route.scope is None and self.site.proxies.is_local(self.request))

    def _authorise(self, store: Store) -> None:
        if not self._is_open:
            self.token = authorise(store, self.site.sessions, self.request, self.route.scope, time.time())

    @property
    def _is_small(self) -> bool:
        """Whether the body may be read before it is known who asks, which saves a turn."""
        return int(self.request.headers.get("content-length", LARGEST_BODY)) <= _SMALL

    def _prepare(self, store: Store) -> None:
        """Who asks comes first; what they ask is looked at only then."""
        self._authorise(store)
        if self.route.body is not None:
            self.body = decode(self._data, self.route.body)

    def _prepared_run(self, store: Store) -> Any:
        if self.route.method == "GET" and not self.route.tends:
            with store.database.read():  # one moment, and one look at the log's index instead of one per statement
                return self._run(store)
        return self._run(store)

    def _run(self, store: Store) -> Any:
        self._prepare(store)
        answer = self._as_caller(lambda store: self.route.run(store, self), store)
        # Encoded here and not in the event loop, which a long list would hold up.
        return answer if isinstance(answer, Response) else Response(dump(answer), media_type=JSON)

    def _as_proved_caller(self, function: Callable[[Store], Found], store: Store) -> Found:
        self._authorise(store)
        return self._as_caller(function, store)

    def _as_caller(self, function: Callable[[Store], Found], store: Store) -> Found:
        """Changes are told as the caller's, and the store decides by its token what it may touch."""
        store.actor, store.access = self.actor, self.token
        return function(store)


async def together(
    under_way: dict[object, asyncio.Future[Any]], key: object, ask: Callable[[], Awaitable[Found]]
) -> Found:
    """What all who ask the same at once are answered; who asks later asks anew."""
    if key not in under_way:
        under_way[key] = asyncio.ensure_future(ask())
        under_way[key].add_done_callback(lambda _: under_way.pop(key))
    found: Found = await asyncio.shield(under_way[key])
    return found


def read_query(route: Route, request: Request) -> Any:
    """The query as the route's type; what may come more than once may also be separated by commas."""
    given: dict[str, Any] = {}
    known = _parameters(route.query) if route.query else {}
    for name, text in request.query_params.multi_items():
        if name not in known:
            allowed = f"known are {', '.join(known)}" if known else "there are none"
            raise BadInput(f"there is no parameter {name[:50]!r} here: {allowed}")
        kinds = known[name]
        if list in kinds:
            given.setdefault(name, []).extend(text.split(","))
        elif name in given:
            raise BadInput(f"the parameter {name!r} may stand once only")
        else:
            given[name] = _value(name, text, kinds)
    if route.query is None:
        return None
    try:
        query = msgspec.convert(given, route.query)
    except msgspec.ValidationError as problem:
        raise BadInput(f"the query makes no sense: {problem}") from None
    for name in (name for name, value in given.items() if isinstance(value, list)):
        setattr(query, name, [part for part in getattr(query, name) if part])
    return query


@cache
def _parameters(query: type[msgspec.Struct]) -> dict[str, set[Any]]:
    """The parameters of a query by name, each with its plain types."""
    return {field.name: _kinds(field.type) for field in msgspec.structs.fields(query)}


def _kinds(type: Any) -> set[Any]:
    """The plain types in a parameter's type."""
    if get_origin(type) is list:
        return {list}
    inner = get_args(type)[:1] if get_origin(type) is Annotated else get_args(type)
    return {type} if not inner else {kind for each in inner for kind in _kinds(each)}


def _value(name: str, text: str, kinds: set[Any]) -> str | int | bool:
    """A parameter's text as its type; `null` is a text like any other, because a queue may be called so."""
    if int in kinds:
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
        raise BadInput(f"{name}: {text[:50]!r} is not a whole number")
    if bool in kinds:
        if text in ("true", "false"):
            return text == "true"
        raise BadInput(f"{name} is true or false, not {text[:50]!r}")
    return text


def decode(body: bytes, type: type[Found]) -> Found:
    """The body as its type, or what is wrong with it."""
    refuse_deep(body)
    try:
        return msgspec.json.decode(body, type=type)
    except msgspec.ValidationError as problem:
        raise BadInput(f"the body makes no sense: {problem}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise BadInput(f"the body is not JSON: {problem}") from None
    except RecursionError:
        raise BadInput("the body is nested too deeply") from None
