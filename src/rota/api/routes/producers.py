"""Sources and schedules over HTTP: what adds jobs by itself."""

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


def list_sources(store: Store, _: ApiRequest) -> list[Document]:
    return [documents.source(status) for status in store.sources.list()]


def show_source(store: Store, request: ApiRequest) -> Document:
    name = store.sources.get(request.path["name"]).name
    return next(documents.source(status) for status in store.sources.list() if status.source.name == name)


def forget(store: Store, request: ApiRequest) -> Document:
    name = request.path["name"]
    return {"name": name, "jobs": store.sources.forget(name)}


def list_schedules(store: Store, _: ApiRequest) -> list[Document]:
    return [documents.schedule(schedule) for schedule in store.schedules.list()]


def show_schedule(store: Store, request: ApiRequest) -> Document:
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


_SOURCE = "/api/v1/sources/{name}"
SOURCES = (
    Route(
        "GET", "/api/v1/sources", list_sources, READ, "sources with their progress", list[nouns.Source],
        operation="sources.list_sources",
    ),
    Route("GET", _SOURCE, show_source, READ, "one source", nouns.Source, operation="sources.show"),
    Route(
        "DELETE", _SOURCE, forget, ADMIN, "remove it with its counters and what waits", responses.Forgotten,
        operation="sources.forget",
    ),
)  # fmt: skip
_SCHEDULES = "/api/v1/schedules"
_SCHEDULE = f"{_SCHEDULES}/{{name}}"
_OF = "/api/v1/orchestrators/{id}/schedules"
SCHEDULES = (
    Route(
        "GET", _SCHEDULES, list_schedules, READ, "schedules with their next and last times", list[nouns.Schedule],
        operation="schedules.list_schedules",
    ),
    Route(
        "POST", _SCHEDULES, add, ADMIN, "make one, or change one that was made so", nouns.Schedule,
        machine.ScheduleSchema, operation="schedules.add",
    ),
    Route("GET", _SCHEDULE, show_schedule, READ, "one schedule", nouns.Schedule, operation="schedules.show"),
    Route(
        "DELETE", _SCHEDULE, remove, ADMIN, "remove it; its jobs stay", responses.Removed,
        operation="schedules.remove",
    ),
    Route(
        "POST", f"{_SCHEDULE}/pause", pause, ADMIN, "let it add nothing", nouns.Schedule, requests.PauseSchedule,
        operation="schedules.pause",
    ),
    Route(
        "POST", f"{_SCHEDULE}/resume", resume, ADMIN, "let it go on with its next time", nouns.Schedule,
        requests.Empty, operation="schedules.resume",
    ),
    Route(
        "POST", f"{_SCHEDULE}/run", run, ENQUEUE, "add its job now", nouns.Job, requests.Empty, requests.Details,
        operation="schedules.run",
    ),
    Route(
        "POST", _OF, declare, WORK, "what its application declares", machine.Joined, machine.DeclaredSchedules,
        operation="schedules.declare",
    ),
)  # fmt: skip
