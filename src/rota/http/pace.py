"""How work goes, over HTTP: for charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.access import READ
from rota.http import views
from rota.http.route import Route

if TYPE_CHECKING:
    from rota.http.visit import Visit
    from rota.wire import Document


async def show(visit: Visit) -> Document:
    return await visit.site.hub.pace()


ROUTES = (Route("GET", "/api/v1/pace", show, READ, "how work went in the last minutes", views.Pace, is_async=True),)
