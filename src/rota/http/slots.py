"""Slots over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import wire
from rota.core.access import ADMIN, READ
from rota.core.errors import NotFound
from rota.http import asked, carried, replies, shapes
from rota.http.route import Route
from rota.store.remote.carried import told

if TYPE_CHECKING:
    from rota.http.visit import Visit
    from rota.store.store import Store
    from rota.wire import Document


def list_slots(store: Store, visit: Visit) -> list[Document]:
    hosts, now, details = store.orchestrators.hosts(), store.now(), visit.query.details
    return [
        {**wire.slot(slot, now, hosts, store.settings.restarts), **({"details": told(slot)} if details else {})}
        for slot in store.slots.all()
    ]


def why(store: Store, visit: Visit) -> Document:
    return {"id": visit.path["name"], "why": store.slots.why(visit.path["name"])}


def reset(store: Store, visit: Visit) -> Document:
    """The slot as it was left: for one that is forgotten, as it was before."""
    name = visit.path["name"]
    before = _find(store, name)
    store.slots.reset(name, visit.body.forget)
    return before if visit.body.forget else _find(store, name)


def _find(store: Store, name: str) -> Document:
    for slot in store.slots.all():
        if slot.name == name:
            return wire.slot(slot, store.now(), store.orchestrators.hosts(), store.settings.restarts)
    raise NotFound(f"there is no slot {name}: `rota orchestrator status` shows those that are")


ROUTES = (
    Route(
        "GET",
        "/api/v1/slots",
        list_slots,
        READ,
        "every slot with its restarts",
        list[carried.SlotWithDetails],
        query=asked.Details,
    ),
    Route("GET", "/api/v1/slots/{name}/why", why, READ, "why it is as it is, in one sentence", replies.WhySlot),
    Route(
        "POST", "/api/v1/slots/{name}/reset", reset, ADMIN, "clear its restarts and fill it", shapes.Slot, asked.Reset
    ),
)
