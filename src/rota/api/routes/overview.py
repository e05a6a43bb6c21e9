"""What the dashboard shows of the whole system: notices, last deaths, throughput and tracked workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import documents
from rota.api.route import Route
from rota.api.schemas import requests, responses
from rota.core.access import READ
from rota.core.errors import NotFound
from rota.core.times import format_instant
from rota.live.attention import notices

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store

_DISABLED: Document = {
    "enabled": False,
    "workers": 0,
    "live": 0,
    "dead": 0,
    "live_workers": [],
    "dead_workers": [],
    "vectorizers": [],
}


def list_notices(store: Store, _: ApiRequest) -> list[Document]:
    return [
        {
            "noun": notice.noun,
            "which": notice.which,
            "text": notice.text,
            "since": None if notice.since is None else format_instant(notice.since),
        }
        for notice in notices(store)
    ]


def list_deaths(store: Store, request: ApiRequest) -> list[Document]:
    query = request.query
    return [documents.death(*row) for row in store.workers.deaths(query.limit, query.slot, query.worker)]


async def show_throughput(request: ApiRequest) -> Document:
    return await request.state.hub.throughput()


def show_tracking(store: Store, request: ApiRequest) -> Document:
    """Return the tracked workers. Tracking is disabled, not an error, without its database or its tables."""
    url = store.settings.tracking_url
    if url is None:
        return _DISABLED
    from rota.tracking.connections import opened
    from rota.tracking.status import document, read

    try:
        with opened(url) as connection:
            return {"enabled": True, **document(read(connection, request.query.limit))}
    except NotFound:
        return _DISABLED


ATTENTION = (
    Route(
        "GET", "/api/v1/attention", list_notices, READ, "what needs attention, worst first", list[responses.Notice],
        operation="attention.list_notices",
    ),
    Route(
        "GET", "/api/v1/deaths", list_deaths, READ, "the workers that died last, newest first", list[responses.Death],
        query=requests.DeathFilter, operation="attention.list_deaths",
    ),
)  # fmt: skip
THROUGHPUT = (
    Route(
        "GET", "/api/v1/pace", show_throughput, READ, "throughput of the last minutes, step by step",
        responses.Throughput, is_async=True, operation="throughput.show",
    ),
)  # fmt: skip
TRACKING = (
    Route(
        "GET", "/api/v1/tracking", show_tracking, READ, "workers and vectorizers that are tracked", responses.Tracking,
        query=requests.TrackingFilter, operation="tracking.show",
    ),
)  # fmt: skip
