"""The HTTP API's page, made from the route table."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, get_args, get_origin

import msgspec

from docs.pages.markdown import code, first_paragraph, join, sentence, table
from rota.api import metrics
from rota.api.app import ROUTES
from rota.api.errors import STATUSES
from rota.api.schemas.derive import Answer
from rota.core.access import SCOPES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.api.route import Route

INTRODUCTION = """\
# HTTP API

`rota serve` answers it; [how to use it](../howto/http.md) and [what protects it](../explanation/security.md) have pages
of their own. [Each request and shape in full](openapi.md) has a page; [openapi.json](openapi.json) describes it for
programs, and every server serves its own at `/api/v1/openapi.json`.

Answers are the documents that the command line prints with `--json`; [their shapes](json.md) are one contract.
Durations are seconds. A request with a body is JSON, at most 1 MiB and 64 levels deep, with `Content-Type:
application/json`; an unknown field or parameter is refused. A list of jobs that fills its `limit` has a `Link` to the
next page. So has a search among jobs, or the log of some topics, that stopped before the end, even if it has found
nothing yet."""

OF_SCOPES = {
    "read": "read everything but tokens, and follow events",
    "enqueue": "add jobs",
    "work": "register workers; claim, renew, release and settle for the workers that this very token registered",
    "admin": "everything",
}

PROBLEMS = """\
## Problems

An error is answered with a problem document (RFC 9457, `application/problem+json`): `type`, `title`, `status`,
`detail` and `code`, which is the [exit code](errors.md) that the command line would have. A refused request has changed
nothing."""

METRICS = """\
## Metrics

`/metrics` serves these in the text format of Prometheus. Those of the store are kept in the database, so every process
serves equal values, and neither a restart nor `rota prune` resets them. Those named `rota_http_…` and
`rota_event_lag_seconds` are of the process that answers. [deploy/alerts.yml](../../deploy/alerts.yml) and
[deploy/grafana.json](../../deploy/grafana.json) use them."""


def page() -> str:
    parts = [INTRODUCTION, "## Scopes", table(("scope", "lets a token"), [(code(s), OF_SCOPES[s]) for s in SCOPES])]
    for noun, routes in groupby(ROUTES, lambda route: route.name.partition(".")[0]):
        parts += _noun(noun, routes)
    statuses = [(code(str(status)), code(kind.__name__), first_paragraph(kind.__doc__)) for kind, status in STATUSES]
    parts += [PROBLEMS, table(("status", "kind", "when"), statuses)]
    rows = [
        (code(f"{name}_total" if kind == "counter" else name), kind, ", ".join(map(code, labels)), about)
        for name, (kind, labels, about) in metrics.METRICS.items()
    ]
    return join(*parts, METRICS, table(("metric", "type", "labels", "meaning"), rows))


def _noun(noun: str, routes: Iterable[Route]) -> list[str]:
    rows = [
        (
            code(f"{route.method} {route.path}"),
            code(route.scope or "–"),
            _parameters(route),
            _answer(route),
            sentence(route.about),
        )
        for route in routes
    ]
    return [f"## {noun.capitalize()}", table(("request", "scope", "takes", "answers", "what it does"), rows)]


def _parameters(route: Route) -> str:
    """Return the fields that a request takes; optional ones are marked with a question mark."""
    shape = route.body or route.query
    fields = msgspec.structs.fields(shape) if shape else ()
    return ", ".join(code(field.name if field.required else f"{field.name}?") for field in fields)


def _answer(route: Route) -> str:
    types = [part for part in get_args(route.answer) or (route.answer,) if isinstance(part, type)]
    names = [type.__name__ for type in types if issubclass(type, Answer)]
    text = " or ".join(names) or route.media.partition(";")[0]
    return f"list of {text}" if get_origin(route.answer) is list else text
