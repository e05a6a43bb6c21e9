"""The orchestrator of this host and all slots over HTTP: status, directives, and maintenance of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import documents
from rota.api.route import Route
from rota.api.schemas import machine, nouns, requests, responses
from rota.core.access import ADMIN, READ
from rota.core.errors import NotFound, Refused
from rota.core.times import SECOND
from rota.process.host import host_id
from rota.store.remote.records import to_document

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store


def status(store: Store, _: ApiRequest) -> Document:

    from rota.orchestrator.pidlock import holder, lock_path

    pid = holder(lock_path(store.database.beside))
    return documents.crew(store, pid)


def reconcile(store: Store, request: ApiRequest) -> Document:
    return documents.reconciled(store.reconcile(request.body.plan))


def prune(store: Store, request: ApiRequest) -> Document:
    older = None if request.body.older is None else round(request.body.older * SECOND)
    pruned = store.history.prune(older, request.body.keep, plan=request.body.plan)
    return {name: getattr(pruned, name) for name in pruned._fields}


def drain(store: Store, request: ApiRequest) -> Document:
    host = request.body.host
    drained = store.orchestrators.drain(request.body.crew, store.orchestrators.host_named(host) if host else host_id())
    if not drained:
        where = f"on {host}" if host else "here"
        raise Refused(f"no orchestrator of crew {request.body.crew} is running {where}")
    return {"draining": [each.pid for each in drained]}


def list_slots(store: Store, request: ApiRequest) -> list[Document]:
    hosts, now, details = store.orchestrators.hosts(), store.now(), request.query.details
    return [
        {
            **documents.slot(slot, now, hosts, store.settings.restarts),
            **({"details": to_document(slot)} if details else {}),
        }
        for slot in store.slots.all()
    ]


def why_slot(store: Store, request: ApiRequest) -> Document:
    return {"id": request.path["name"], "why": store.slots.why(request.path["name"])}


def reset_slot(store: Store, request: ApiRequest) -> Document:
    """Reset a slot and return it; a slot that is removed is returned as it was before."""
    name = request.path["name"]
    before = _slot(store, name)
    store.slots.reset(name, request.body.forget)
    return before if request.body.forget else _slot(store, name)


def _slot(store: Store, name: str) -> Document:
    for slot in store.slots.all():
        if slot.name == name:
            return documents.slot(slot, store.now(), store.orchestrators.hosts(), store.settings.restarts)
    raise NotFound(f"there is no slot {name}: `rota orchestrator status` shows those that are")


ORCHESTRATOR = (
    Route(
        "GET", "/api/v1/orchestrator", status, READ, "the status of the one on this host and of all slots", nouns.Crew,
        operation="orchestrator.status",
    ),
    Route(
        "POST", "/api/v1/orchestrator/reconcile", reconcile, ADMIN, "repair the state of the store, or plan it",
        responses.Reconciled, requests.Reconcile, operation="orchestrator.reconcile",
    ),
    Route(
        "POST", "/api/v1/prune", prune, ADMIN, "delete what is old, or plan it", responses.Pruned, requests.Prune,
        operation="orchestrator.prune",
    ),
    Route(
        "POST", "/api/v1/orchestrator/drain", drain, ADMIN, "let the crew finish what it holds, and end",
        responses.Draining, requests.Drain, operation="orchestrator.drain",
    ),
)  # fmt: skip
SLOTS = (
    Route(
        "GET", "/api/v1/slots", list_slots, READ, "every slot with its restarts", list[machine.SlotWithDetails],
        query=requests.Details, operation="slots.list_slots",
    ),
    Route(
        "GET", "/api/v1/slots/{name}/why", why_slot, READ, "why it is as it is, in one sentence", responses.WhySlot,
        operation="slots.why",
    ),
    Route(
        "POST", "/api/v1/slots/{name}/reset", reset_slot, ADMIN, "clear its restarts and fill it", nouns.Slot,
        requests.Reset, operation="slots.reset",
    ),
)  # fmt: skip
