"""What an orchestrator elsewhere asks of the store: its lease, its exchanges, and the deaths that it saw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import wire
from rota.core.access import ADMIN
from rota.core.errors import Conflict
from rota.core.ids import job_id
from rota.core.jsontext import Raw
from rota.core.times import SECOND, format_instant
from rota.http import shapes
from rota.http.claims import outcome_of
from rota.http.route import Route
from rota.store.deaths import Death
from rota.store.exchange import Idle, Report
from rota.store.payload import encode as encode_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.http.visit import Visit
    from rota.store.exchange import Handout
    from rota.store.store import Store
    from rota.wire import Document


def renew(store: Store, visit: Visit) -> Document:
    until = store.orchestrators.renew(_id(visit), visit.body.answered_wish, visit.body.status)
    return {"lease_expires_at": format_instant(until), "wish": store.orchestrators.last_wish()}


def exchange(store: Store, visit: Visit) -> Document:
    told = visit.body
    idle = [Idle(each.worker_id, each.queue, each.room, each.held) for each in told.idle]
    report = _report(told.outcomes, told.checkpoints).but(idle=idle, holdings=told.holdings, served=told.served)
    answer = store.orchestrators.exchange(_id(visit), told.number, report)
    return {
        "claims": [_handout(each) for each in answer.claims],
        "refused": answer.refused,
        "number": answer.number,
    }


def certify(store: Store, visit: Visit) -> Document:
    told, id = visit.body, _id(visit)
    if store.workers.get(told.worker_id).orchestrator not in (id, None):
        raise Conflict(
            f"worker {told.worker_id} is watched by another orchestrator than {id}, which writes down its end"
        )
    death = Death(**{name: getattr(told, name) for name in Death._fields})
    last = _report(told.outcomes, told.checkpoints)
    delay, reason = store.orchestrators.record_death(death, last, store.settings.restarts)
    return {"starts_in": None if delay is None else delay / SECOND, "reason": reason}


def _id(visit: Visit) -> int:
    return job_id(visit.path["id"])


def _report(outcomes: Sequence[shapes.Outcome], checkpoints: Sequence[shapes.Checkpoint]) -> Report:
    settled = [(each.job_id, each.token, outcome_of(each)) for each in outcomes]
    kept = [(encode_payload(each.value, "checkpoint") or "null", each.job_id, each.token) for each in checkpoints]
    return Report(settled, checkpoints=kept)


def _handout(claim: Handout) -> Document:
    return {
        "job_id": claim.job_id,
        "token": claim.token,
        "worker_id": claim.worker_id,
        "queue": claim.queue,
        "kind": claim.kind or None,
        "title": claim.title,
        "payload": None if claim.payload_json is None else Raw(claim.payload_json),
        "priority": claim.priority,
        "attempt": claim.attempt,
        "max_attempts": claim.max_attempts,
        "timeout": None if claim.timeout is None else claim.timeout / SECOND,
        "checkpoint": None if claim.checkpoint_json is None else Raw(claim.checkpoint_json),
        "fenced": claim.fenced,
        "previous_runs": [wire.run(run) for run in claim.previous_runs],
    }


_OF = "/api/v1/orchestrators/{id}"
ROUTES = (
    Route("POST", f"{_OF}/lease", renew, ADMIN, "renew its lease", shapes.Lease, shapes.RenewLease),
    Route(
        "POST", f"{_OF}/exchange", exchange, ADMIN, "settle and claim in one step", shapes.Exchanged, shapes.Exchange
    ),
    Route(
        "POST", f"{_OF}/certificates", certify, ADMIN, "record a death that it saw", shapes.Certified, shapes.Certify
    ),
)
