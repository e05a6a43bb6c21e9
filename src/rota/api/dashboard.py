"""The dashboard: one page and the files that it is made of, bundled into `static/` when the package is built."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, Response

from rota.api.errors import NotHere, Unauthenticated, status_of
from rota.api.route import HTML, OPEN, Route
from rota.core.access import READ
from rota.core.errors import RotaError
from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from rota.api.request import Visit

STATIC = os.path.join(os.path.dirname(__file__), "static")
MEDIA = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
FOREVER = "public, max-age=31536000, immutable"


class Asset(Record):
    """A file of the page; its name says what is in it, so it never changes."""

    media: str
    plain: bytes
    small: bytes


async def home(_: Visit) -> Response:
    return _page("index", 200)


async def asset(visit: Visit) -> Response:
    """Gzipped for whoever can read that."""
    found = _assets().get(visit.path["file"])
    if found is None:
        raise NotHere(f"the dashboard has no file {visit.path['file'][:100]!r}")
    headers = {"cache-control": FOREVER, "vary": "accept-encoding"}
    if "gzip" in visit.request.headers.get("accept-encoding", ""):
        return Response(found.small, 200, {**headers, "content-encoding": "gzip"}, found.media)
    return Response(found.plain, 200, headers, found.media)


def closed(refusal: RotaError, request: Request, routes: Mapping[str, Route]) -> Response | None:
    """What a person sees who looks without a session; None for programs, which get the problem itself."""
    looks = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if not (looks and isinstance(refusal, Unauthenticated) and "GET" in routes and routes["GET"].media == HTML):
        return None
    return _page("closed", status_of(refusal))


def _page(name: str, status: int) -> Response:
    return HTMLResponse(_pages()[name], status, {"content-security-policy": POLICY})


@cache
def _pages() -> dict[str, bytes]:
    """The pages by name; each is read once."""
    try:
        return {name: _read(f"{name}.html") for name in ("index", "closed")}
    except FileNotFoundError:
        raise RotaError("the dashboard was not bundled into this installation: `./dev setup` does it") from None


@cache
def _assets() -> dict[str, Asset]:
    """The files by name; each is read once."""
    names = os.listdir(STATIC) if os.path.isdir(STATIC) else []
    endings = {name: name.rpartition(".")[2] for name in names}
    return {
        name: Asset(MEDIA[ending], _read(name), _read(f"{name}.gz"))
        for name, ending in endings.items()
        if ending in MEDIA
    }


def _read(name: str) -> bytes:
    with open(os.path.join(STATIC, name), "rb") as file:
        return file.read()


ROUTES = (
    Route("GET", "/", home, READ, "the dashboard", str, media=HTML, is_async=True),
    Route("GET", "/assets/{file}", asset, OPEN, "a file of the dashboard", str, media=HTML, is_async=True, public=True),
)
