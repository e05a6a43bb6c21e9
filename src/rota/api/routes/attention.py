"""What needs attention, and which workers died last, over HTTP."""

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
            "noun": each.noun,
            "which": each.which,
            "text": each.text,
            "since": None if each.since is None else format_instant(each.since),
        }
        for each in notices(store)
    ]


def list_deaths(store: Store, request: ApiRequest) -> list[Document]:
    wanted = request.query
    return [documents.death(*each) for each in store.workers.deaths(wanted.limit, wanted.slot, wanted.worker)]


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
