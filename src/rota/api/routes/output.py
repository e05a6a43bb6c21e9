"""What runs wrote, over HTTP: a part at a time, and while a run lives, as soon as there is more."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rota.api.route import Route
from rota.api.schemas import views
from rota.core.access import READ
from rota.core.ids import job_id
from rota.store.jobs.output import Output, missing, path_so_far, refuse_elsewhere

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store

LOOK_AGAIN = 0.25


async def read(request: ApiRequest) -> Document:
    """Waits, if asked to, until there is something after the offset or the run is over."""
    with request.state.open_requests.one(request.token):
        return await _wait(request)


async def _wait(request: ApiRequest) -> Document:
    until = time.monotonic() + request.query.wait
    while True:
        found = await request.ask(lambda store: _read(store, request))
        if found["text"] or not found["is_live"] or request.query.offset is None or time.monotonic() >= until:
            return found
        await asyncio.sleep(LOOK_AGAIN)


def _read(store: Store, request: ApiRequest) -> Document:
    wanted = request.query
    id = job_id(request.path["id"])
    captured = store.claims.captured(id, wanted.run)
    host = refuse_elsewhere(store, id, captured)
    named = {"job_id": id, "run_id": captured.run_id, "stream": wanted.stream, "host": host}
    path = path_so_far(captured, wanted.stream)
    if path is None:
        return {**named, "is_live": True, "size": 0, "offset": 0, "next": 0, "text": ""}
    with Output(path, captured.is_own) as output:
        if output.size is None:
            if captured.is_live:
                return {**named, "is_live": True, "size": 0, "offset": 0, "next": 0, "text": ""}
            raise missing(captured, wanted.stream, path)
        offset = max(0, output.size - wanted.limit) if wanted.offset is None else wanted.offset
        offset = 0 if offset > output.size else offset  # it was written anew
        data = output.part(offset, min(wanted.limit, output.size - offset))
        data = whole(data, last=not captured.is_live and offset + len(data) >= output.size)
        told = {"is_live": captured.is_live, "size": output.size, "offset": offset, "next": offset + len(data)}
        return {**named, **told, "text": data.decode("utf-8", "replace")}


def whole(data: bytes, last: bool) -> bytes:
    """The data without a character that is cut off at its end, unless nothing more will come."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:  # the middle of a character
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back and len(data) > back and not last else data
    return data


ROUTES = (
    Route(
        "GET",
        "/api/v1/jobs/{id}/output",
        read,
        READ,
        "what its newest run wrote, or the one named",
        views.Output,
        query=views.OutputFilter,
        is_async=True,
    ),
)
