"""Notices of what needs attention, and the last deaths of workers, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import documents
from rota.api.route import Route
from rota.api.schemas import views
from rota.core.access import READ
from rota.core.times import format_instant
from rota.live.attention import notices

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store


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


ROUTES = (
    Route("GET", "/api/v1/attention", list_notices, READ, "what needs attention, worst first", list[views.Notice]),
    Route(
        "GET",
        "/api/v1/deaths",
        list_deaths,
        READ,
        "the workers that died last, newest first",
        list[views.Death],
        query=views.DeathFilter,
    ),
)
