"""Worker tracking over HTTP: what `rota tracking status` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.api.route import Route
from rota.api.schemas import requests, views
from rota.core.access import READ
from rota.core.errors import NotFound

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


def show(store: Store, request: ApiRequest) -> Document:
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


ROUTES = (
    Route(
        "GET",
        "/api/v1/tracking",
        show,
        READ,
        "workers and vectorizers that are tracked",
        views.Tracking,
        query=requests.TrackingFilter,
    ),
)
