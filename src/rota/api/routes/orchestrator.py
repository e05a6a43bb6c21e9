"""The orchestrator of this host over HTTP: its status and directives, and maintenance of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import documents
from rota.api.route import Route
from rota.api.schemas import nouns, requests, responses
from rota.core.access import ADMIN, READ
from rota.core.errors import Refused
from rota.core.times import SECOND
from rota.process.host import host_id

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


ROUTES = (
    Route(
        "GET", "/api/v1/orchestrator", status, READ, "the status of the one on this host and of all slots", nouns.Crew
    ),
    Route(
        "POST",
        "/api/v1/orchestrator/reconcile",
        reconcile,
        ADMIN,
        "repair the state of the store, or plan it",
        responses.Reconciled,
        requests.Reconcile,
    ),
    Route(
        "POST",
        "/api/v1/prune",
        prune,
        ADMIN,
        "delete what is old, or plan it",
        responses.Pruned,
        requests.Prune,
    ),
    Route(
        "POST",
        "/api/v1/orchestrator/drain",
        drain,
        ADMIN,
        "let the crew finish what it holds, and end",
        responses.Draining,
        requests.Drain,
    ),
)
