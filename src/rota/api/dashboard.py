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

    from rota.api.request import ApiRequest

STATIC = os.path.join(os.path.dirname(__file__), "static")
MEDIA = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
FOREVER = "public, max-age=31536000, immutable"


class Asset(Record):
    """A file of the page. Its name contains a hash of its content, so it never changes."""

    media: str
    plain: bytes
    gzipped: bytes


async def home(_: ApiRequest) -> Response:
    return _page("index", 200)


async def asset(request: ApiRequest) -> Response:
    """Serve one file, gzipped if the client accepts that."""
    file = _assets().get(request.path["file"])
    if file is None:
        raise NotHere(f"the dashboard has no file {request.path['file'][:100]!r}")
    headers = {"cache-control": FOREVER, "vary": "accept-encoding"}
    if "gzip" in request.http.headers.get("accept-encoding", ""):
        return Response(file.gzipped, 200, {**headers, "content-encoding": "gzip"}, file.media)
    return Response(file.plain, 200, headers, file.media)


def closed(refusal: RotaError, request: Request, routes: Mapping[str, Route]) -> Response | None:
    """Return the page for a browser without a session; None for programs, which get the problem document."""
    is_browser = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if not (is_browser and isinstance(refusal, Unauthenticated) and "GET" in routes and routes["GET"].media == HTML):
        return None
    return _page("closed", status_of(refusal))


def _page(name: str, status: int) -> Response:
    return HTMLResponse(_pages()[name], status, {"content-security-policy": POLICY})


@cache
def _pages() -> dict[str, bytes]:
    """Read the pages, once."""
    try:
        return {name: _read(f"{name}.html") for name in ("index", "closed")}
    except FileNotFoundError:
        raise RotaError("the dashboard was not bundled into this installation: `./dev setup` does it") from None


@cache
def _assets() -> dict[str, Asset]:
    """Read the files that the pages load, once."""
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
)  # fmt: skip
