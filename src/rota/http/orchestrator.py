"""The orchestrator over HTTP: how it is, what people wish of it, and what keeps its store in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import wire
from rota.core.access import ADMIN, READ
from rota.core.errors import Refused
from rota.core.times import SECOND
from rota.http import asked, replies, shapes
from rota.http.route import Route
from rota.store.host import host_id

if TYPE_CHECKING:
    from rota.http.visit import Visit
    from rota.store.store import Store
    from rota.wire import Document


def status(store: Store, _: Visit) -> Document:
    from rota.orchestrator.exclusive import holder
    from rota.orchestrator.run import lock_path

    pid = holder(lock_path(store.database.beside))
    return wire.crew(store, pid)


def reconcile(store: Store, visit: Visit) -> Document:
    return wire.reconciled(store.reconcile(visit.body.plan))


def prune(store: Store, visit: Visit) -> Document:
    older = None if visit.body.older is None else round(visit.body.older * SECOND)
    gone = store.history.prune(older, visit.body.keep, plan=visit.body.plan)
    return {name: getattr(gone, name) for name in gone._fields}


def drain(store: Store, visit: Visit) -> Document:
    host = visit.body.host
    asked = store.orchestrators.drain(visit.body.crew, store.orchestrators.host_named(host) if host else host_id())
    if not asked:
        where = f"on {host}" if host else "here"
        raise Refused(f"no orchestrator of crew {visit.body.crew} is running {where}")
    return {"draining": [each.pid for each in asked]}


ROUTES = (
    Route("GET", "/api/v1/orchestrator", status, READ, "how the one on this host and all slots are", shapes.Crew),
    Route(
        "POST",
        "/api/v1/orchestrator/reconcile",
        reconcile,
        ADMIN,
        "make the store true, or plan it",
        replies.Reconciled,
        asked.Reconcile,
    ),
    Route(
        "POST",
        "/api/v1/prune",
        prune,
        ADMIN,
        "forget what is old, or plan it",
        replies.Pruned,
        asked.Prune,
    ),
    Route(
        "POST",
        "/api/v1/orchestrator/drain",
        drain,
        ADMIN,
        "let the crew finish what it holds, and end",
        replies.Draining,
        asked.Drain,
    ),
)
