"""Errors as problem documents (RFC 9457), with the command line's exit code in them."""

from __future__ import annotations

from starlette.responses import Response

from rota.core import errors
from rota.core.errors import BadInput, Refused, RotaError
from rota.core.jsontext import encode

MEDIA = "application/problem+json"


class Unauthenticated(Refused):
    """Nobody said who is asking, or with a token that is not, or no longer, known."""


class Misdirected(Refused):
    """This server does not answer to that name."""


class NotHere(errors.NotFound):
    """No such path."""


class WrongMethod(BadInput):
    """The path is there, and this cannot be done with it."""

    def __init__(self, text: str, allow: str) -> None:
        super().__init__(text)
        self.allow = allow


class WrongMedia(BadInput):
    """Not JSON."""


class HeadersTooLarge(BadInput):
    """Too many headers, or too many bytes of them."""


class TooSlow(Refused):
    """The caller did not send its request in time."""


class TooMany(Refused):
    """One token, or all together, have as many of these open as they may."""


class NoAnswer(errors.StoreError):
    """The store did not answer in time; what was asked for may yet be done."""


# The first that an error is an instance of tells its status.
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
    """The answer that tells of an error."""
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
