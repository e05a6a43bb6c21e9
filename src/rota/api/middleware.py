"""What is refused before anyone looks who asks: foreign names, foreign pages, what is not JSON, what is too much."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from rota.api import errors
from rota.api.auth import host_name
from rota.api.errors import HeadersTooLarge, Misdirected, TooSlow, WrongMedia
from rota.core.errors import BadInput, Denied, RotaError, TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 1024 * 1024
LARGEST_HEADERS, MOST_HEADERS = 32 * 1024, 100
DEEPEST = 64
BODY_WITHIN = 10.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NAVIGABLE = ("/", "/open")
# A string of JSON, ended or not; possessive, so that nobody can make it try again and again.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_AS_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_ON_EVERY_ANSWER = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """An ASGI app in front of another; `hosts` are the names that it answers to, whatever the port."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOOPBACK) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guarded = _with_headers(send)
        try:
            _check(scope, self._hosts)
        except RotaError as refusal:
            response = errors.response(refusal)
            response.headers["connection"] = "close"  # what follows may be a body that nobody reads
            await response(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)


def _check(scope: Scope, hosts: frozenset[str]) -> None:
    if scope["http_version"] not in ("1.0", "1.1", "2", "3"):
        raise BadInput(f"HTTP/{scope['http_version']} is not spoken here: use HTTP/1.1")
    _refuse_large_headers(scope)
    headers = _headers(scope)
    _refuse_two_lengths(scope, headers)
    named = headers.get("host", [])
    if len(named) != 1 or host_name(named[0]) not in hosts:
        said = named[0][:100] if named else ""
        raise Misdirected(
            f"this server does not answer to the host {said!r}: the setting http_hosts names those it does"
        )
    _refuse_foreign_pages(scope, headers, named[0])
    length = headers.get("content-length", ["0"])[-1]
    if not (length.isascii() and length.isdigit()):
        raise BadInput(f"{length[:20]!r} is not a length")
    if len(length) > 9 or int(length) > LARGEST_BODY:
        raise TooLarge(f"the body is too large: at most {LARGEST_BODY:,} bytes")


def _refuse_large_headers(scope: Scope) -> None:
    size = sum(len(name) + len(value) for name, value in scope["headers"]) + len(scope["query_string"])
    if len(scope["headers"]) > MOST_HEADERS or size + len(scope["path"]) > LARGEST_HEADERS:
        raise HeadersTooLarge(f"too many headers: at most {MOST_HEADERS}, of {LARGEST_HEADERS:,} bytes with the path")


def _refuse_two_lengths(scope: Scope, headers: dict[str, list[str]]) -> None:
    """Refuse a body whose end a proxy in front of us may see elsewhere (request smuggling)."""
    if "transfer-encoding" in headers and ("content-length" in headers or scope["http_version"] == "1.0"):
        raise BadInput("Transfer-Encoding goes neither with Content-Length nor with HTTP/1.0: send one length")


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _refuse_foreign_pages(scope: Scope, headers: dict[str, list[str]], host: str) -> None:
    """A page of another site may not speak to us through somebody's browser."""
    for origin in headers.get("origin", []):
        if origin.partition("://")[2].lower() != host.lower() or origin.partition("://")[0] not in ("http", "https"):
            raise Denied(f"a page of {origin[:100]!r} may not use this API: only pages of this server may")
    site = headers.get("sec-fetch-site", ["none"])[-1]
    navigates = scope["method"] == "GET" and headers.get("sec-fetch-mode", [""])[-1] == "navigate"
    if site not in ("same-origin", "none") and not (navigates and own_path(scope) in _NAVIGABLE):
        raise Denied("a page of another site may not use this API: only pages of this server may")


def own_path(scope: Scope) -> str:
    """The path below the place where the app is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def refuse_other_media(request: Request) -> None:
    """Only JSON is taken, even where there is little to say: no form of another site's page can send it."""
    media = request.headers.getlist("content-type") or [""]
    kind, _, parameter = media[-1].partition(";")
    charset = parameter.strip().lower()
    if len(media) != 1 or kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise WrongMedia(f"send JSON with `Content-Type: application/json`, not {media[-1][:100]!r}")


def _with_headers(send: Send) -> Send:
    """The same `send`, with the headers that every answer has."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", [])}
            more = [header for header in _ON_EVERY_ANSWER if header[0] not in given]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return guarded


async def read_body(request: Request) -> bytes:
    """The whole body, bounded in size and time."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_WITHIN):
            async for piece in request.stream():
                size += len(piece)
                if size > LARGEST_BODY:
                    raise TooLarge(f"the body is too large: at most {LARGEST_BODY:,} bytes")
                pieces.append(piece)
    except TimeoutError:
        raise TooSlow(f"the body did not come within {BODY_WITHIN:g}s") from None
    return b"".join(pieces)


def refuse_deep(body: bytes) -> None:
    """Refuse JSON that is nested so deeply that readers disagree about it. Each turn takes the innermost level away."""
    if body.count(b"[") + body.count(b"{") <= DEEPEST:
        return
    brackets = _STRING.sub(b"", body).translate(_AS_SQUARE, _NOT_BRACKETS)
    for _ in range(DEEPEST):
        less = brackets.replace(b"[]", b"")
        if less == brackets:  # nothing is left, or it is not JSON, which the decoder says better
            return
        brackets = less
    if brackets:
        raise BadInput(f"the body is nested too deeply: at most {DEEPEST} levels")
