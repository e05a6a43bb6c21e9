"""Orchestrators on hosts that reach only the API, from start to leave, and their orphans."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import msgspec

from rota import documents
from rota.api.route import SSE, Route
from rota.api.schemas import machine, requests, responses
from rota.api.schemas.machine import report_of
from rota.api.stream.notifications import NotificationStream
from rota.core.access import WORK
from rota.core.errors import BadInput, Conflict
from rota.core.event import change
from rota.core.frames.codec import LARGEST_REPORT
from rota.core.frames.messages import Kinds
from rota.core.ids import job_id
from rota.core.jsontext import encode
from rota.core.slot import GiveUp, Restart, RestartPolicy
from rota.core.times import SECOND, format_instant
from rota.core.worker import Dead
from rota.store import ownership
from rota.store.claims.exchange import Idle
from rota.store.remote.records import from_document, to_document
from rota.store.workers.crews import Home, Process
from rota.store.workers.death import Death

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.core.job import Job
    from rota.documents import Document
    from rota.store.store import Store
    from rota.store.workers.orphans import Kept


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
    # Which workers live, only their own host can tell (decision 21).
    orphans = store.orchestrators.take_over(id, crew, lambda process: process.worker_id in living)
    return [to_document(each) for each in orphans]


def slots(store: Store, request: ApiRequest) -> list[Document]:
    home, crew = store.orchestrators.home(_id(request))
    if request.body.pools is not None:
        store.slots.take(crew, home.host, request.body.pools)
    return [to_document(each) for each in store.slots.of_crew(crew, home.host)]


def worker_ids(store: Store, request: ApiRequest) -> Document:
    # Ids are made in advance, so that workers can be started while the API is away (decision 21).
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


def renew_lease(store: Store, request: ApiRequest) -> Document:
    body = request.body
    last_seen = sorted((each.worker_id, round(each.ago * SECOND)) for each in body.heard)
    until = store.orchestrators.renew(_id(request), body.acknowledged_directive, body.status, last_seen)
    return {"lease_expires_at": format_instant(until), "directive": store.orchestrators.last_directive()}


def exchange(store: Store, request: ApiRequest) -> Document:
    body = request.body
    idle = [from_document(Idle, msgspec.to_builtins(each)) for each in body.idle]
    report = report_of(body).replace(idle=idle, holdings=body.holdings, served=body.served)
    answer = store.orchestrators.exchange(_id(request), body.number, report)
    return to_document(answer, {"Run": documents.run, "Job": _with_details})


def poll(store: Store, request: ApiRequest) -> Document:
    body = request.body
    return to_document(store.orchestrators.poll(_id(request), body.known_directive, body.reconciles, body.polls))


def show_workers(store: Store, request: ApiRequest) -> Document:
    id, body = _id(request), request.body
    ownership.orchestrator(store, id)
    _refuse_large(body)
    for each in body.up:
        kinds = Kinds(frozenset(each.kinds), each.every)
        store.orchestrators.came_up(each.worker_id, each.slot, each.concurrency, kinds)
    if body.said or body.felt:
        metadata = [(None if each.metadata is None else encode(each.metadata), each.worker_id) for each in body.said]
        store.orchestrators.mirror(metadata, [(each.health, each.slot) for each in body.felt])
    if body.noted:
        store.orchestrators.note(change(each.noun, each.verb, each.which, each.details) for each in body.noted)
    return {"id": id}


def _refuse_large(body: machine.Show) -> None:
    """Apply the limits of worker frames, so that a remote worker cannot store more than a local one."""
    for report in body.said:
        if report.metadata is not None and len(encode(report.metadata)) > LARGEST_REPORT:
            raise BadInput(f"what {report.worker_id} says of itself is too large: at most {LARGEST_REPORT:,} bytes")
    for up in body.up:
        if sum(len(kind.encode()) for kind in up.kinds) > LARGEST_REPORT:
            raise BadInput(f"the kinds that {up.worker_id} knows are too many: at most {LARGEST_REPORT:,} bytes")
    for event in body.noted:
        if len(encode(event.details)) > machine.LARGEST_FACT:
            raise BadInput(f"the details of {event.which} are too large: at most {machine.LARGEST_FACT:,} bytes")


async def notifications(request: ApiRequest) -> NotificationStream:
    # Not the event stream: that one would wake a crew at every outcome of its own (decision 21).
    await request.ask(lambda store: ownership.orchestrator(store, _id(request)))
    await request.state.job_notifications.open()
    return NotificationStream(request)


def _with_details(job: Job) -> Document:
    return {**documents.job(job), "details": documents.job_details(job)}


def begin_orphan(store: Store, request: ApiRequest) -> Document:
    worker, report_orphan = _own_worker(store, request), report_of(request.body)
    checkpoints: list[Kept] = [(job, token, value) for value, job, token in report_orphan.checkpoints]
    held = store.orphans.begin(worker, frozenset(request.body.in_hand), report_orphan.outcomes, checkpoints)
    return {"held": sorted(held)}


def renew_orphan(store: Store, request: ApiRequest) -> Document:
    worker = _own_worker(store, request)
    return {"held": sorted(store.orphans.renew(worker, [(each.job_id, each.token) for each in request.body.claims]))}


def report_orphan(store: Store, request: ApiRequest) -> Document:
    worker, reported = _own_worker(store, request), report_of(request.body)
    for value, job, token in reported.checkpoints:
        store.orphans.keep_checkpoint(worker, (job, token, value))
    for settled in reported.outcomes:
        store.orphans.settle(worker, settled)
    return {"held": []}


def end_orphan(store: Store, request: ApiRequest) -> Document:
    worker, death = _own_worker(store, request), from_document(Death, msgspec.to_builtins(request.body.death))
    if death.worker_id != worker:
        raise BadInput(f"this is the end_orphan of {worker}, and the certificate is of {death.worker_id}")
    store.orphans.end(death, report_of(request.body).outcomes)
    return {"held": []}


def _own_worker(store: Store, request: ApiRequest) -> str:
    return store.workers.get(request.path["id"]).id


_ALL = "/api/v1/orchestrators"
_OF = f"{_ALL}/{{id}}"
ORCHESTRATORS = (
    Route("POST", _ALL, join, WORK, "an orchestrator begins", machine.Joined, machine.Join),
    Route("GET", _OF, standing, WORK, "its last exchange, and who was left behind before it", machine.Standing),
    Route("DELETE", _OF, leave, WORK, "it ends; what it holds goes back", machine.Joined),
    Route(
        "POST", f"{_OF}/take-over", take_over, WORK, "release what the dead before it held; the orphans that live",
        list[machine.ProcessSchema], machine.TakeOver,
    ),
    Route("POST", f"{_OF}/slots", slots, WORK, "take its slots", list[machine.SlotSchema], machine.Pools),
    Route(
        "POST", f"{_OF}/worker-ids", worker_ids, WORK, "ids for workers to be started", machine.WorkerIds,
        machine.IdsWanted,
    ),
    Route(
        "POST", f"{_OF}/workers", register_worker, WORK, "a worker's process was started", machine.Joined,
        machine.RegisterWorker,
    ),
    Route(
        "POST", f"{_OF}/certificates", certify, WORK, "record a death that it saw", responses.Certified,
        machine.Certify,
    ),
    Route(
        "POST", f"{_OF}/burials", mark_dead, WORK, "an unsupervised worker is dead", machine.Joined, machine.MarkDead,
    ),
    Route("POST", f"{_OF}/ends", ends, WORK, "how claims ended", list[machine.ClaimEnd], machine.Tokens),
)  # fmt: skip
EXCHANGE = (
    Route(
        "POST", f"{_OF}/lease", renew_lease, WORK, "renew its lease", responses.Lease, requests.RenewLease,
        operation="exchange.renew",
    ),
    Route(
        "POST", f"{_OF}/exchange", exchange, WORK, "settle and claim in one step", machine.Exchanged, machine.Exchange,
        operation="exchange.exchange",
    ),
    Route(
        "POST", f"{_OF}/look", poll, WORK, "run due maintenance; what there is to do", machine.PollResultSchema,
        machine.Poll, operation="exchange.poll",
    ),
    Route(
        "POST", f"{_OF}/show", show_workers, WORK, "report the state of its workers", machine.Joined, machine.Show,
        operation="exchange.show",
    ),
    Route(
        "GET", f"{_OF}/bell", notifications, WORK, "a line whenever there may be something to do, without end", str,
        media=SSE, is_async=True, operation="exchange.notifications",
    ),
)  # fmt: skip
_ORPHAN = "/api/v1/workers/{id}/orphan"
ORPHANS = (
    Route(
        "POST", f"{_ORPHAN}/begin", begin_orphan, WORK, "it goes on alone with these", machine.Held,
        machine.OrphanBegins, operation="orphans.begin",
    ),
    Route(
        "POST", f"{_ORPHAN}/renew", renew_orphan, WORK, "a heartbeat and a renewal in one", machine.Held,
        machine.OrphanRenews, operation="orphans.renew",
    ),
    Route(
        "POST", f"{_ORPHAN}/report", report_orphan, WORK, "outcomes and checkpoints of its jobs", machine.Held,
        machine.Reported, operation="orphans.report",
    ),
    Route(
        "POST", f"{_ORPHAN}/end", end_orphan, WORK, "it is gone", machine.Held, machine.OrphanEnds,
        operation="orphans.end",
    ),
)  # fmt: skip
