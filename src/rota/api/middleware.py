"""Checks made before authentication: Host header, Origin, content type, body size."""

from __future__ import annotations

import asyncio
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
BODY_WITHIN = 10.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NAVIGABLE = ("/", "/open")
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
_ON_EVERY_RESPONSE = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class RequestChecks:
    """An ASGI app that checks requests before another app gets them.

    `hosts` are the names accepted in the Host header, with any port.
    """

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
        send = _with_headers(send)
        try:
            _check(scope, self._hosts)
        except RotaError as refusal:
            response = errors.response(refusal)
            response.headers["connection"] = "close"  # An unread body may follow.
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _check(scope: Scope, hosts: frozenset[str]) -> None:
    if scope["http_version"] not in ("1.0", "1.1", "2", "3"):
        raise BadInput(f"HTTP/{scope['http_version']} is not spoken here: use HTTP/1.1")
    _refuse_large_headers(scope)
    headers = _headers(scope)
    _refuse_two_lengths(scope, headers)
    host_headers = headers.get("host", [])
    if len(host_headers) != 1 or host_name(host_headers[0]) not in hosts:
        host = host_headers[0][:100] if host_headers else ""
        raise Misdirected(
            f"this server does not answer to the host {host!r}: the setting http_hosts names those it does"
        )
    _refuse_foreign_pages(scope, headers, host_headers[0])
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
    """Refuse a body whose length a proxy in front of this server may read differently (request smuggling)."""
    if "transfer-encoding" in headers and ("content-length" in headers or scope["http_version"] == "1.0"):
        raise BadInput("Transfer-Encoding goes neither with Content-Length nor with HTTP/1.0: send one length")


def _headers(scope: Scope) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return values


def _refuse_foreign_pages(scope: Scope, headers: dict[str, list[str]], host: str) -> None:
    """Refuse requests that a browser sends for a page of another site."""
    for origin in headers.get("origin", []):
        if origin.partition("://")[2].lower() != host.lower() or origin.partition("://")[0] not in ("http", "https"):
            raise Denied(f"a page of {origin[:100]!r} may not use this API: only pages of this server may")
    site = headers.get("sec-fetch-site", ["none"])[-1]
    navigates = scope["method"] == "GET" and headers.get("sec-fetch-mode", [""])[-1] == "navigate"
    if site not in ("same-origin", "none") and not (navigates and own_path(scope) in _NAVIGABLE):
        raise Denied("a page of another site may not use this API: only pages of this server may")


def own_path(scope: Scope) -> str:
    """Return the path relative to where the app is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def refuse_other_media(request: Request) -> None:
    """Refuse bodies that are not declared as JSON, even empty ones: a form on another site's page cannot send JSON."""
    media = request.headers.getlist("content-type") or [""]
    kind, _, parameter = media[-1].partition(";")
    charset = parameter.strip().lower()
    if len(media) != 1 or kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise WrongMedia(f"send JSON with `Content-Type: application/json`, not {media[-1][:100]!r}")


def _with_headers(send: Send) -> Send:
    """Wrap `send` so that every response carries the security headers."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", [])}
            more = [header for header in _ON_EVERY_RESPONSE if header[0] not in present]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return send_with_headers


async def read_body(request: Request) -> bytes:
    """Read the whole body, within the limits on size and time."""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_WITHIN):
            async for chunk in request.stream():
                size += len(chunk)
                if size > LARGEST_BODY:
                    raise TooLarge(f"the body is too large: at most {LARGEST_BODY:,} bytes")
                chunks.append(chunk)
    except TimeoutError:
        raise TooSlow(f"the body did not come within {BODY_WITHIN:g}s") from None
    return b"".join(chunks)
