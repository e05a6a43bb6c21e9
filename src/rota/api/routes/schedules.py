"""Schedules over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota import documents
from rota.api.route import Route
from rota.api.routes.jobs import job_document
from rota.api.schemas import machine, nouns, requests, responses
from rota.core.access import ADMIN, ENQUEUE, READ, WORK
from rota.core.ids import job_id
from rota.core.schedule import NewSchedule
from rota.store import ownership
from rota.store.remote.records import from_document

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store


def list_schedules(store: Store, _: ApiRequest) -> list[Document]:
    return [documents.schedule(schedule) for schedule in store.schedules.list()]


def show(store: Store, request: ApiRequest) -> Document:
    return documents.schedule(store.schedules.get(request.path["name"]))


def add(store: Store, request: ApiRequest) -> Document:
    return documents.schedule(store.schedules.add(from_document(NewSchedule, msgspec.to_builtins(request.body))))


def pause(store: Store, request: ApiRequest) -> Document:
    return documents.schedule(store.schedules.pause(request.path["name"], request.body.reason))


def resume(store: Store, request: ApiRequest) -> Document:
    return documents.schedule(store.schedules.resume(request.path["name"]))


def run(store: Store, request: ApiRequest) -> Document:
    return job_document(request, store.schedules.run(request.path["name"]))


def remove(store: Store, request: ApiRequest) -> Document:
    name = request.path["name"]
    store.schedules.remove(name)
    return {"name": name}


def declare(store: Store, request: ApiRequest) -> Document:
    id = job_id(request.path["id"])
    ownership.orchestrator(store, id)
    schedules = [from_document(NewSchedule, msgspec.to_builtins(schedule)) for schedule in request.body.schedules]
    store.schedules.declare(schedules)
    return {"id": id}


_ALL = "/api/v1/schedules"
_ONE = f"{_ALL}/{{name}}"
_OF = "/api/v1/orchestrators/{id}/schedules"
ROUTES = (
    Route("GET", _ALL, list_schedules, READ, "schedules with their next and last times", list[nouns.Schedule]),
    Route("POST", _ALL, add, ADMIN, "make one, or change one that was made so", nouns.Schedule, machine.ScheduleSchema),
    Route("GET", _ONE, show, READ, "one schedule", nouns.Schedule),
    Route("DELETE", _ONE, remove, ADMIN, "remove it; its jobs stay", responses.Removed),
    Route("POST", f"{_ONE}/pause", pause, ADMIN, "let it add nothing", nouns.Schedule, requests.PauseSchedule),
    Route("POST", f"{_ONE}/resume", resume, ADMIN, "let it go on with its next time", nouns.Schedule, requests.Empty),
    Route("POST", f"{_ONE}/run", run, ENQUEUE, "add its job now", nouns.Job, requests.Empty, requests.Details),
    Route("POST", _OF, declare, WORK, "what its application declares", machine.Joined, machine.DeclaredSchedules),
)
