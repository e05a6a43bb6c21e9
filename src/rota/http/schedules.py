"""Schedules over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota import wire
from rota.core.access import ADMIN, ENQUEUE, READ, WORK
from rota.core.ids import job_id
from rota.core.schedule import NewSchedule
from rota.http import asked, carried, derived, replies, shapes
from rota.http.jobs import job_document
from rota.http.route import Route
from rota.store import owners
from rota.store.remote.carried import heard

if TYPE_CHECKING:
    from rota.http.visit import Visit
    from rota.store.store import Store
    from rota.wire import Document


def list_schedules(store: Store, _: Visit) -> list[Document]:
    return [wire.schedule(schedule) for schedule in store.schedules.list()]


def show(store: Store, visit: Visit) -> Document:
    return wire.schedule(store.schedules.get(visit.path["name"]))


def add(store: Store, visit: Visit) -> Document:
    return wire.schedule(store.schedules.add(heard(NewSchedule, msgspec.to_builtins(visit.body))))


def pause(store: Store, visit: Visit) -> Document:
    return wire.schedule(store.schedules.pause(visit.path["name"], visit.body.reason))


def resume(store: Store, visit: Visit) -> Document:
    return wire.schedule(store.schedules.resume(visit.path["name"]))


def run(store: Store, visit: Visit) -> Document:
    return job_document(visit, store.schedules.run(visit.path["name"]))


def remove(store: Store, visit: Visit) -> Document:
    name = visit.path["name"]
    store.schedules.remove(name)
    return {"name": name}


def declare(store: Store, visit: Visit) -> Document:
    id = job_id(visit.path["id"])
    owners.orchestrator(store, id)
    told = [heard(NewSchedule, msgspec.to_builtins(each)) for each in visit.body.schedules]
    store.schedules.declare(told)
    return {"id": id}


_ALL = "/api/v1/schedules"
_ONE = f"{_ALL}/{{name}}"
_OF = "/api/v1/orchestrators/{id}/schedules"
ROUTES = (
    Route("GET", _ALL, list_schedules, READ, "schedules with their next and last times", list[shapes.Schedule]),
    Route("POST", _ALL, add, ADMIN, "make one, or change one that was made so", shapes.Schedule, derived.ScheduleTold),
    Route("GET", _ONE, show, READ, "one schedule", shapes.Schedule),
    Route("DELETE", _ONE, remove, ADMIN, "remove it; its jobs stay", replies.Removed),
    Route("POST", f"{_ONE}/pause", pause, ADMIN, "let it add nothing", shapes.Schedule, asked.PauseSchedule),
    Route("POST", f"{_ONE}/resume", resume, ADMIN, "let it go on with its next time", shapes.Schedule, asked.Empty),
    Route("POST", f"{_ONE}/run", run, ENQUEUE, "add its job now", shapes.Job, asked.Empty, asked.Details),
    Route("POST", _OF, declare, WORK, "what its application declares", carried.Joined, carried.DeclaredSchedules),
)
