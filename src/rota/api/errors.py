"""Errors as problem documents (RFC 9457), which include the exit code that the command line would have."""

from __future__ import annotations

from starlette.responses import Response

from rota.core import errors
from rota.core.errors import BadInput, Refused, RotaError
from rota.core.jsontext import encode

MEDIA = "application/problem+json"


class Unauthenticated(Refused):
    """Missing, unknown or revoked credentials."""


class Misdirected(Refused):
    """The Host header names another server."""


class NotHere(errors.NotFound):
    """There is nothing at this path."""


class WrongMethod(BadInput):
    """The path exists but does not support this method."""

    def __init__(self, text: str, allow: str) -> None:
        super().__init__(text)
        self.allow = allow


class WrongMedia(BadInput):
    """The content type is not JSON."""


class HeadersTooLarge(BadInput):
    """Too many headers, or too many bytes of headers."""


class TooSlow(Refused):
    """The body did not arrive in time."""


class TooMany(Refused):
    """A token, or all of them together, have reached the limit on open requests of this kind."""


class NoAnswer(errors.StoreError):
    """The store did not answer in time; the change may still be made."""


# The first class that an error is an instance of gives its status, so subclasses come before their bases.
STATUSES: tuple[tuple[type[RotaError], int], ...] = (
    (Unauthenticated, 401),
    (errors.Denied, 403),
    (Misdirected, 421),
    (WrongMethod, 405),
    (WrongMedia, 415),
    (TooSlow, 408),
    (TooMany, 429),
    (HeadersTooLarge, 431),
    (errors.TooLarge, 413),
    (BadInput, 400),
    (errors.UnknownWorker, 404),
    (errors.NotFound, 404),
    (errors.Stale, 412),
    (errors.QueueFull, 429),
    (errors.Conflict, 409),
    (Refused, 409),
    (errors.StoreFull, 507),
    (errors.StoreError, 503),
    (RotaError, 500),
)


def status_of(problem: RotaError) -> int:
    return next(status for kind, status in STATUSES if isinstance(problem, kind))


def response(problem: RotaError) -> Response:
    """Return the problem document of an error, with the headers of its status."""
    status, kind = status_of(problem), type(problem).__name__
    document = {
        "type": f"urn:rota:{_kebab(kind)}",
        "title": _kebab(kind).replace("-", " ").capitalize(),
        "status": status,
        "detail": str(problem),
        "code": problem.exit_code,
    }
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(problem, WrongMethod):
        headers["Allow"] = problem.allow
    if status in (429, 503):
        headers["Retry-After"] = "1"
    return Response(encode(document).encode(), status, headers, MEDIA)


def _kebab(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")
