"""What an orchestrator elsewhere asks of the store while it works: its lease, its exchanges, what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota import wire
from rota.core.access import WORK
from rota.core.jsontext import encode
from rota.core.times import format_instant
from rota.http import asked, carried, derived, replies
from rota.http.own import own, refuse_foreign_slots, refuse_foreign_workers, report_of, to_watch
from rota.http.ringing import Ringing
from rota.http.route import SSE, Route
from rota.store.exchange import Idle
from rota.store.remote.carried import heard, told

if TYPE_CHECKING:
    from rota.core.job import Job
    from rota.http.visit import Visit
    from rota.store.store import Store
    from rota.wire import Document


def renew(store: Store, visit: Visit) -> Document:
    until = store.orchestrators.renew(own(store, visit).id, visit.body.answered_wish, visit.body.status)
    return {"lease_expires_at": format_instant(until), "wish": store.orchestrators.last_wish()}


def exchange(store: Store, visit: Visit) -> Document:
    found, body = own(store, visit), visit.body
    idle = [heard(Idle, msgspec.to_builtins(each)) for each in body.idle]
    report = report_of(store, visit, body).but(
        idle=idle, holdings=body.holdings, served=body.served, fills=found.home.access is None
    )
    answer = store.orchestrators.exchange(found.id, body.number, report)
    return told(answer, {"Run": wire.run, "Job": _whole})


def look(store: Store, visit: Visit) -> Document:
    body = visit.body
    found = store.orchestrators.look(own(store, visit).id, body.known_wish, body.reconciles, body.polls)
    if found.processes is not None:
        found = found.but(processes=to_watch(store, visit, found.processes))
    return told(found)


def show(store: Store, visit: Visit) -> Document:
    found, body = own(store, visit), visit.body
    refuse_foreign_slots(store, found, [each.slot for each in (*body.up, *body.felt)])
    refuse_foreign_workers(store, visit, [each.worker_id for each in (*body.up, *body.said)])
    for each in body.up:
        store.orchestrators.came_up(each.worker_id, each.slot, each.concurrency)
    if body.said or body.felt:
        said = [(None if each.metadata is None else encode(each.metadata), each.worker_id) for each in body.said]
        store.orchestrators.mirror(said, [(each.health, each.slot) for each in body.felt])
    if body.noted:
        store.orchestrators.note((each.noun, each.verb, each.which, each.details) for each in body.noted)
    return {"id": found.id}


async def ring(visit: Visit) -> Ringing:
    await visit.ask(lambda store: own(store, visit))
    await visit.site.work.open()
    return Ringing(visit)


def _whole(job: Job) -> Document:
    return {**wire.job(job), "details": wire.job_details(job)}


_OF = "/api/v1/orchestrators/{id}"
ROUTES = (
    Route("POST", f"{_OF}/lease", renew, WORK, "renew its lease", replies.Lease, asked.RenewLease),
    Route(
        "POST", f"{_OF}/exchange", exchange, WORK, "settle and claim in one step", carried.Exchanged, carried.Exchange
    ),
    Route(
        "POST", f"{_OF}/look", look, WORK, "tend what is due; what there is to do", derived.OutlookTold, carried.Look
    ),
    Route("POST", f"{_OF}/show", show, WORK, "show how its workers are", carried.Joined, carried.Show),
    Route(
        "GET",
        f"{_OF}/bell",
        ring,
        WORK,
        "a line whenever there may be something to do, without end",
        str,
        media=SSE,
        is_async=True,
    ),
)
