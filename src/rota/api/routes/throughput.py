"""Throughput over HTTP: for charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.api.route import Route
from rota.api.schemas import views
from rota.core.access import READ

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document


async def show(request: ApiRequest) -> Document:
    return await request.state.hub.throughput()


ROUTES = (
    Route(
        "GET",
        "/api/v1/pace",
        show,
        READ,
        "throughput of the last minutes, step by step",
        views.Throughput,
        is_async=True,
    ),
)
