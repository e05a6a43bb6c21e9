"""Slots over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import documents
from rota.api.route import Route
from rota.api.schemas import machine, nouns, requests, responses
from rota.core.access import ADMIN, READ
from rota.core.errors import NotFound
from rota.store.remote.records import to_document

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store


def list_slots(store: Store, request: ApiRequest) -> list[Document]:
    hosts, now, details = store.orchestrators.hosts(), store.now(), request.query.details
    return [
        {
            **documents.slot(slot, now, hosts, store.settings.restarts),
            **({"details": to_document(slot)} if details else {}),
        }
        for slot in store.slots.all()
    ]


def why(store: Store, request: ApiRequest) -> Document:
    return {"id": request.path["name"], "why": store.slots.why(request.path["name"])}


def reset(store: Store, request: ApiRequest) -> Document:
    """Reset a slot and return it; a slot that is removed is returned as it was before."""
    name = request.path["name"]
    before = _find(store, name)
    store.slots.reset(name, request.body.forget)
    return before if request.body.forget else _find(store, name)


def _find(store: Store, name: str) -> Document:
    for slot in store.slots.all():
        if slot.name == name:
            return documents.slot(slot, store.now(), store.orchestrators.hosts(), store.settings.restarts)
    raise NotFound(f"there is no slot {name}: `rota orchestrator status` shows those that are")


ROUTES = (
    Route(
        "GET",
        "/api/v1/slots",
        list_slots,
        READ,
        "every slot with its restarts",
        list[machine.SlotWithDetails],
        query=requests.Details,
    ),
    Route("GET", "/api/v1/slots/{name}/why", why, READ, "why it is as it is, in one sentence", responses.WhySlot),
    Route(
        "POST", "/api/v1/slots/{name}/reset", reset, ADMIN, "clear its restarts and fill it", nouns.Slot, requests.Reset
    ),
)
