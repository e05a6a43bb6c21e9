"""Who is asking: an access token in a header, or a browser's session that began with a one-time code."""

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
CODE_LASTS, SESSION_LASTS = 60.0, 12 * 3600.0
_MOST_CODES = 20  # of one token
_FORWARDED = ("forwarded", "x-real-ip", "via")
_LOOPBACK_NAMES = ("localhost",)


class Grant(Record):
    """What a code stands for, and until when."""

    token_id: str
    until: float


class Sessions:
    """One-time codes, which live as long as the process, and the sessions they begin.

    A session is signed, not kept: it outlives a restart of the server where the key does.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._codes: dict[str, Grant] = {}
        self._key = hashlib.sha256(b"rota session " + (key or secrets.token_bytes(32))).digest()

    def new_code(self, token_id: str, now: float) -> str:
        """A code that begins one session of this token, within a minute."""
        return _keep(self._codes, Grant(token_id, now + CODE_LASTS), now)

    def begin(self, code: str, now: float) -> str | None:
        """The session that a code begins; None for one that was used, is too old or never was."""
        grant = self._codes.pop(_digest(code), None)
        if grant is None or grant.until < now:
            return None
        said = f"{grant.token_id}.{round(now + SESSION_LASTS)}"
        return f"{said}.{self._signature(said)}"

    def token_of(self, session: str, now: float) -> str | None:
        """The id of the token that a session stands for."""
        said, _, signature = session.rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._signature(said).encode()):
            return None
        id, _, until = said.rpartition(".")
        return id if float(until) >= now else None

    def _signature(self, said: str) -> str:
        return hmac.new(self._key, said.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _keep(grants: dict[str, Grant], grant: Grant, now: float) -> str:
    """Keep a grant under a new secret, of which only the digest is known; old ones of the same token make room."""
    for old in [digest for digest, known in grants.items() if known.until < now]:
        del grants[old]
    mine = [digest for digest, known in grants.items() if known.token_id == grant.token_id]
    for old in mine[: max(0, len(mine) + 1 - _MOST_CODES)]:
        del grants[old]
    secret = secrets.token_urlsafe(32)
    grants[_digest(secret)] = grant
    return secret


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def authorise(store: Store, sessions: Sessions, request: Request, scope: str | None, now: float) -> AccessToken:
    """The token of whoever asks, if it allows this; without a scope to have, any will do."""
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
    """A browser sends its cookie with every request, so a change must show that a page of ours asks for it."""
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
    """The proxies in front of this server, as the setting `http_proxies` names them: addresses or networks."""

    def __init__(self, named: str) -> None:
        self._networks = networks(named)

    def forwarded(self, request: Request) -> bool:
        """Whether one of them sent this request."""
        try:
            peer = ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        return any(peer in network for network in self._networks)

    def scheme(self, request: Request) -> str:
        """What the browser speaks: believed of a proxy that was named, and of nobody else."""
        told = request.headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
        return told if told in ("http", "https") and self.forwarded(request) else request.url.scheme

    def is_local(self, request: Request) -> bool:
        """Whether somebody on this machine asks, and not a proxy for somebody else."""
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
    """The name in a Host header, without its port; empty when it is not well formed."""
    name, closed, rest = host.partition("]") if host.startswith("[") else (host.partition(":")[0], "", "")
    port = rest if closed else host[len(name) :]
    if port and not (port[0] == ":" and (port[1:] or "0").isdigit()):
        return ""
    return name.removeprefix("[").lower()
