"""Authentication: an access token in a header, or a browser session that began with a one-time code."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from ipaddress import ip_address
from typing import TYPE_CHECKING

from rota.api.errors import Unauthenticated
from rota.core.errors import Denied, NotFound
from rota.core.record import Record
from rota.settings import networks

if TYPE_CHECKING:
    from starlette.requests import Request

    from rota.core.access import AccessToken
    from rota.store.store import Store

COOKIE = "rota_session"
CODE_LASTS, SESSION_LASTS = 60.0, 12 * 3600.0  # seconds
_MOST_CODES = 20  # per token
_FORWARDED = ("forwarded", "x-real-ip", "via")
_LOOPBACK_NAMES = ("localhost",)


class Grant(Record):
    """The token that a one-time code belongs to, and until when the code is valid."""

    token_id: str
    until: float


class Sessions:
    """One-time codes, kept in memory, and the sessions that they begin.

    A session is a signed value, not stored: it survives a restart of the server if the key does.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._codes: dict[str, Grant] = {}
        self._key = hashlib.sha256(b"rota session " + (key or secrets.token_bytes(32))).digest()

    def new_code(self, token_id: str, now: float) -> str:
        """Make a code that begins one session for this token within `CODE_LASTS` seconds."""
        return _store_grant(self._codes, Grant(token_id, now + CODE_LASTS), now)

    def begin(self, code: str, now: float) -> str | None:
        """Return a new session for a code; None if the code was used already, has expired or is unknown."""
        grant = self._codes.pop(_digest(code), None)
        if grant is None or grant.until < now:
            return None
        signed = f"{grant.token_id}.{round(now + SESSION_LASTS)}"
        return f"{signed}.{self._signature(signed)}"

    def token_of(self, session: str, now: float) -> str | None:
        """Return the id of the token of a session; None if its signature is wrong or it has expired."""
        signed, _, signature = session.rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._signature(signed).encode()):
            return None
        id, _, until = signed.rpartition(".")
        return id if float(until) >= now else None

    def _signature(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _store_grant(grants: dict[str, Grant], grant: Grant, now: float) -> str:
    """Store a grant under the digest of a new secret, and return the secret. The oldest of its token make room."""
    for digest in [digest for digest, other in grants.items() if other.until < now]:
        del grants[digest]
    of_token = [digest for digest, other in grants.items() if other.token_id == grant.token_id]
    for digest in of_token[: max(0, len(of_token) + 1 - _MOST_CODES)]:
        del grants[digest]
    secret = secrets.token_urlsafe(32)
    grants[_digest(secret)] = grant
    return secret


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def authorise(store: Store, sessions: Sessions, request: Request, scope: str | None, now: float) -> AccessToken:
    """Return the caller's token.

    Raises:
        Unauthenticated: The credentials are missing, unknown or revoked.
        Denied: The token lacks the scope. Without a scope, every token is accepted.
    """
    token = _bearer(store, request) or _of_session(store, sessions, request, now)
    if token is None:
        raise Unauthenticated(
            "this needs an access token: send `Authorization: Bearer …`; `rota token create` makes one"
        )
    if scope is not None and not token.allows(scope):
        raise Denied(f"token {token.name!r} may not do this: it needs the scope {scope}")
    return token


def _bearer(store: Store, request: Request) -> AccessToken | None:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return store.tokens.prove(secret.strip()) if kind.lower() == "bearer" else None


def _of_session(store: Store, sessions: Sessions, request: Request, now: float) -> AccessToken | None:
    """Return the token of a browser session.

    A browser sends the cookie with every request, so a change must prove that a page of this server makes it.
    """
    id = sessions.token_of(request.cookies.get(COOKIE, ""), now)
    if id is None:
        return None
    changes = request.method not in ("GET", "HEAD")
    if changes and "origin" not in request.headers and request.headers.get("sec-fetch-site") != "same-origin":
        raise Denied("a session changes things only from its own pages: the request has no Origin")
    try:
        token = store.tokens.get(id)
    except NotFound:
        return None
    return token if token.revoked_at is None else None


class Proxies:
    """The proxies in front of this server: the addresses and networks of the setting `http_proxies`."""

    def __init__(self, http_proxies: str) -> None:
        self._networks = networks(http_proxies)

    def forwarded(self, request: Request) -> bool:
        """Whether a proxy sent this request."""
        try:
            peer = ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        return any(peer in network for network in self._networks)

    def scheme(self, request: Request) -> str:
        """Return the scheme that the browser used: that of a known proxy's X-Forwarded-Proto, else the connection's."""
        proto = request.headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
        return proto if proto in ("http", "https") and self.forwarded(request) else request.url.scheme

    def is_local(self, request: Request) -> bool:
        """Whether the request comes from a program on this machine and was not forwarded for another."""
        return _is_local(request) and not self.forwarded(request)


def _is_local(request: Request) -> bool:
    if request.client is None or any(name in _FORWARDED or name.startswith("x-forwarded") for name in request.headers):
        return False
    return is_loopback(request.client.host) and is_loopback(host_name(request.headers.get("host", "")))


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK_NAMES


def host_name(host: str) -> str:
    """Return the name in a Host header without its port; empty if it is malformed."""
    name, closed, rest = host.partition("]") if host.startswith("[") else (host.partition(":")[0], "", "")
    port = rest if closed else host[len(name) :]
    if port and not (port[0] == ":" and (port[1:] or "0").isdigit()):
        return ""
    return name.removeprefix("[").lower()
