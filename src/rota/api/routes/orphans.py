"""Workers whose orchestrator is gone, on hosts that reach only the API: each renews and settles for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.api.route import Route
from rota.api.schemas import machine
from rota.api.schemas.machine import report_of
from rota.core.access import WORK
from rota.core.errors import BadInput
from rota.store.remote.records import from_document
from rota.store.workers.death import Death

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store
    from rota.store.workers.orphans import Kept


def begin(store: Store, request: ApiRequest) -> Document:
    worker, report = _own(store, request), report_of(request.body)
    checkpoints: list[Kept] = [(job, token, value) for value, job, token in report.checkpoints]
    held = store.orphans.begin(worker, frozenset(request.body.in_hand), report.outcomes, checkpoints)
    return {"held": sorted(held)}


def renew(store: Store, request: ApiRequest) -> Document:
    worker = _own(store, request)
    return {"held": sorted(store.orphans.renew(worker, [(each.job_id, each.token) for each in request.body.claims]))}


def report(store: Store, request: ApiRequest) -> Document:
    worker, reported = _own(store, request), report_of(request.body)
    for value, job, token in reported.checkpoints:
        store.orphans.keep_checkpoint(worker, (job, token, value))
    for settled in reported.outcomes:
        store.orphans.settle(worker, settled)
    return {"held": []}


def end(store: Store, request: ApiRequest) -> Document:
    worker, death = _own(store, request), from_document(Death, msgspec.to_builtins(request.body.death))
    if death.worker_id != worker:
        raise BadInput(f"this is the end of {worker}, and the certificate is of {death.worker_id}")
    store.orphans.end(death, report_of(request.body).outcomes)
    return {"held": []}


def _own(store: Store, request: ApiRequest) -> str:
    return store.workers.get(request.path["id"]).id


_OF = "/api/v1/workers/{id}/orphan"
ROUTES = (
    Route("POST", f"{_OF}/begin", begin, WORK, "it goes on alone with these", machine.Held, machine.OrphanBegins),
    Route("POST", f"{_OF}/renew", renew, WORK, "a heartbeat and a renewal in one", machine.Held, machine.OrphanRenews),
    Route(
        "POST", f"{_OF}/report", report, WORK, "outcomes and checkpoints of its jobs", machine.Held, machine.Reported
    ),
    Route("POST", f"{_OF}/end", end, WORK, "it is gone", machine.Held, machine.OrphanEnds),
)
