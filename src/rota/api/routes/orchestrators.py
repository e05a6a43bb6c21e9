"""Orchestrators that reach only the API: start, take-over, slots, deaths of workers, and leaving."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import msgspec

from rota.api.route import Route
from rota.api.schemas import machine, responses
from rota.api.schemas.machine import report_of
from rota.core.access import WORK
from rota.core.errors import Conflict
from rota.core.ids import job_id
from rota.core.slot import GiveUp, Restart, RestartPolicy
from rota.core.times import SECOND
from rota.core.worker import Dead
from rota.store import ownership
from rota.store.remote.records import from_document, to_document
from rota.store.workers.crews import Home, Process
from rota.store.workers.death import Death

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store


def join(store: Store, request: ApiRequest) -> Document:
    home = from_document(Home, msgspec.to_builtins(request.body.home))
    return {"id": store.orchestrators.join(request.body.crew, home)}


def standing(store: Store, request: ApiRequest) -> Document:
    id = _id(request)
    return {
        "number": store.orchestrators.number(id),
        "before": [to_document(each) for each in store.orchestrators.before(id)],
    }


def take_over(store: Store, request: ApiRequest) -> list[Document]:
    id, living = _id(request), set(request.body.living)
    _, crew = store.orchestrators.home(id)
    orphans = store.orchestrators.take_over(id, crew, lambda process: process.worker_id in living)
    return [to_document(each) for each in orphans]


def slots(store: Store, request: ApiRequest) -> list[Document]:
    home, crew = store.orchestrators.home(_id(request))
    if request.body.pools is not None:
        store.slots.take(crew, home.host, request.body.pools)
    return [to_document(each) for each in store.slots.of_crew(crew, home.host)]


def worker_ids(store: Store, request: ApiRequest) -> Document:
    return {"worker_ids": store.orchestrators.worker_ids(_id(request), request.body.count)}


def register_worker(store: Store, request: ApiRequest) -> Document:
    id, body = _id(request), request.body
    process = Process(body.worker_id, body.pid, body.pid_start, body.slot)
    store.orchestrators.register_worker(id, body.slot, body.queue, process)
    return {"id": id}


def certify(store: Store, request: ApiRequest) -> Document:
    body = request.body
    death = from_document(Death, msgspec.to_builtins(body.death))
    _refuse_supervised_elsewhere(store, _id(request), death.worker_id)
    policy = from_document(RestartPolicy, msgspec.to_builtins(body.policy)) if body.policy else store.settings.restarts
    match store.orchestrators.record_death(death, report_of(body), policy):
        case Restart(after):
            return {"starts_in": after / SECOND, "reason": None}
        case GiveUp(reason):
            return {"starts_in": None, "reason": reason}
        case other:
            assert_never(other)


def mark_dead(store: Store, request: ApiRequest) -> Document:
    id, body = _id(request), request.body
    _refuse_supervised_elsewhere(store, id, body.worker_id)
    if body.reason is None:
        store.orchestrators.end_orphan(body.worker_id)
    else:
        store.orchestrators.mark_dead(body.worker_id, Dead(body.reason, body.text))
    return {"id": id}


def ends(store: Store, request: ApiRequest) -> list[Document]:
    ownership.orchestrator(store, _id(request))
    outcomes = store.orchestrators.ends(request.body.tokens)
    return [{"token": token, "verb": verb, "error": error} for token, (verb, error) in outcomes.items()]


def leave(store: Store, request: ApiRequest) -> Document:
    id = _id(request)
    store.orchestrators.leave(id)
    return {"id": id}


def _id(request: ApiRequest) -> int:
    return job_id(request.path["id"])


def _refuse_supervised_elsewhere(store: Store, id: int, worker: str) -> None:
    """Refuse the death of a worker of another orchestrator, even of one with this token."""
    ownership.worker(store, worker)
    if store.workers.is_known(worker) and store.workers.get(worker).orchestrator not in (id, None):
        raise Conflict(f"worker {worker} is watched by another orchestrator than {id}, which writes down its end")


_ALL = "/api/v1/orchestrators"
_OF = f"{_ALL}/{{id}}"
ROUTES = (
    Route("POST", _ALL, join, WORK, "an orchestrator begins", machine.Joined, machine.Join),
    Route("GET", _OF, standing, WORK, "its last exchange, and who was left behind before it", machine.Standing),
    Route("DELETE", _OF, leave, WORK, "it ends; what it holds goes back", machine.Joined),
    Route(
        "POST",
        f"{_OF}/take-over",
        take_over,
        WORK,
        "release what the dead before it held; the orphans that live",
        list[machine.ProcessSchema],
        machine.TakeOver,
    ),
    Route("POST", f"{_OF}/slots", slots, WORK, "take its slots", list[machine.SlotSchema], machine.Pools),
    Route(
        "POST",
        f"{_OF}/worker-ids",
        worker_ids,
        WORK,
        "ids for workers to be started",
        machine.WorkerIds,
        machine.IdsWanted,
    ),
    Route(
        "POST",
        f"{_OF}/workers",
        register_worker,
        WORK,
        "a worker's process was started",
        machine.Joined,
        machine.RegisterWorker,
    ),
    Route(
        "POST", f"{_OF}/certificates", certify, WORK, "record a death that it saw", responses.Certified, machine.Certify
    ),
    Route(
        "POST", f"{_OF}/burials", mark_dead, WORK, "an unsupervised worker is dead", machine.Joined, machine.MarkDead
    ),
    Route("POST", f"{_OF}/ends", ends, WORK, "how claims ended", list[machine.ClaimEnd], machine.Tokens),
)
