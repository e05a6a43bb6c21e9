"""Workers whose orchestrator is gone, on hosts that reach only the API: each looks after itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.access import WORK
from rota.core.errors import BadInput
from rota.http import carried
from rota.http.carried import report_of
from rota.http.route import Route
from rota.store.deaths import Death
from rota.store.remote.carried import heard

if TYPE_CHECKING:
    from rota.http.visit import Visit
    from rota.store.orphans import Kept
    from rota.store.store import Store
    from rota.wire import Document


def begin(store: Store, visit: Visit) -> Document:
    worker, report = _own(store, visit), report_of(visit.body)
    kept: list[Kept] = [(job, token, value) for value, job, token in report.checkpoints]
    held = store.orphans.begin(worker, frozenset(visit.body.in_hand), report.outcomes, kept)
    return {"held": sorted(held)}


def renew(store: Store, visit: Visit) -> Document:
    worker = _own(store, visit)
    return {"held": sorted(store.orphans.renew(worker, [(each.job_id, each.token) for each in visit.body.claims]))}


def report(store: Store, visit: Visit) -> Document:
    worker, found = _own(store, visit), report_of(visit.body)
    for value, job, token in found.checkpoints:
        store.orphans.keep_checkpoint(worker, (job, token, value))
    for settled in found.outcomes:
        store.orphans.settle(worker, settled)
    return {"held": []}


def end(store: Store, visit: Visit) -> Document:
    worker, death = _own(store, visit), heard(Death, msgspec.to_builtins(visit.body.death))
    if death.worker_id != worker:
        raise BadInput(f"this is the end of {worker}, and the certificate is of {death.worker_id}")
    store.orphans.end(death, report_of(visit.body).outcomes)
    return {"held": []}


def _own(store: Store, visit: Visit) -> str:
    return store.workers.get(visit.path["id"]).id


_OF = "/api/v1/workers/{id}/orphan"
ROUTES = (
    Route("POST", f"{_OF}/begin", begin, WORK, "it goes on alone with these", carried.Held, carried.OrphanBegins),
    Route("POST", f"{_OF}/renew", renew, WORK, "a beat and a renewal in one", carried.Held, carried.OrphanRenews),
    Route("POST", f"{_OF}/report", report, WORK, "what became of what it held", carried.Held, carried.Reported),
    Route("POST", f"{_OF}/end", end, WORK, "it is gone", carried.Held, carried.OrphanEnds),
)
