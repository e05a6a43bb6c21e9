"""Orchestrators that reach only the API, while they run: lease, exchanges, state of workers, notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota import documents
from rota.api.route import SSE, Route
from rota.api.schemas import machine, requests, responses
from rota.api.schemas.machine import report_of
from rota.api.stream.notifications import NotificationStream
from rota.core.access import WORK
from rota.core.errors import BadInput
from rota.core.frames.codec import LARGEST_REPORT
from rota.core.frames.messages import Kinds
from rota.core.ids import job_id
from rota.core.jsontext import encode
from rota.core.times import SECOND, format_instant
from rota.store import ownership
from rota.store.claims.exchange import Idle
from rota.store.remote.records import from_document, to_document

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.core.job import Job
    from rota.documents import Document
    from rota.store.store import Store


def renew(store: Store, request: ApiRequest) -> Document:
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


def show(store: Store, request: ApiRequest) -> Document:
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
        store.orchestrators.note((each.noun, each.verb, each.which, each.details) for each in body.noted)
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
    await request.ask(lambda store: ownership.orchestrator(store, _id(request)))
    await request.state.job_notifications.open()
    return NotificationStream(request)


def _id(request: ApiRequest) -> int:
    return job_id(request.path["id"])


def _with_details(job: Job) -> Document:
    return {**documents.job(job), "details": documents.job_details(job)}


_OF = "/api/v1/orchestrators/{id}"
ROUTES = (
    Route("POST", f"{_OF}/lease", renew, WORK, "renew its lease", responses.Lease, requests.RenewLease),
    Route(
        "POST", f"{_OF}/exchange", exchange, WORK, "settle and claim in one step", machine.Exchanged, machine.Exchange
    ),
    Route(
        "POST",
        f"{_OF}/look",
        poll,
        WORK,
        "run due maintenance; what there is to do",
        machine.PollResultSchema,
        machine.Poll,
    ),
    Route("POST", f"{_OF}/show", show, WORK, "report the state of its workers", machine.Joined, machine.Show),
    Route(
        "GET",
        f"{_OF}/bell",
        notifications,
        WORK,
        "a line whenever there may be something to do, without end",
        str,
        media=SSE,
        is_async=True,
    ),
)
