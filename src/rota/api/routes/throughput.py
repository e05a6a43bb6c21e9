"""How work goes, over HTTP: for charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.api.route import Route
from rota.api.schemas import views
from rota.core.access import READ

if TYPE_CHECKING:
    from rota.api.request import Visit
    from rota.documents import Document


async def show(visit: Visit) -> Document:
    return await visit.site.hub.pace()


ROUTES = (Route("GET", "/api/v1/pace", show, READ, "how work went in the last minutes", views.Pace, is_async=True),)
