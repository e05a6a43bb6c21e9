"""Runs over HTTP, and their output: one part at a time, and of a live run as soon as there is more."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rota import documents
from rota.api.route import Route
from rota.api.schemas import nouns, requests, responses
from rota.core.access import READ
from rota.core.ids import job_id
from rota.store.jobs.output import Output, missing, path_so_far, refuse_elsewhere

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store

READ_AGAIN_AFTER = 0.25


def show(store: Store, request: ApiRequest) -> Document:
    return documents.run(store.claims.run(request.path["id"]))


async def read_output(request: ApiRequest) -> Document:
    """Return a part of the output. With `wait`, waits until there is more after the offset or the run has ended."""
    with request.state.open_requests.one(request.token):
        return await _wait(request)


async def _wait(request: ApiRequest) -> Document:
    until = time.monotonic() + request.query.wait
    while True:
        part = await request.ask(lambda store: _read(store, request))
        if part["text"] or not part["is_live"] or request.query.offset is None or time.monotonic() >= until:
            return part
        await asyncio.sleep(READ_AGAIN_AFTER)


def _read(store: Store, request: ApiRequest) -> Document:
    query = request.query
    id = job_id(request.path["id"])
    captured = store.claims.captured(id, query.run)
    host = refuse_elsewhere(store, id, captured)
    source = {"job_id": id, "run_id": captured.run_id, "stream": query.stream, "host": host}
    path = path_so_far(captured, query.stream)
    if path is None:
        return {**source, "is_live": True, "size": 0, "offset": 0, "next": 0, "text": ""}
    with Output(path, captured.is_own) as output:
        if output.size is None:
            if captured.is_live:
                return {**source, "is_live": True, "size": 0, "offset": 0, "next": 0, "text": ""}
            raise missing(captured, query.stream, path)
        offset = max(0, output.size - query.limit) if query.offset is None else query.offset
        offset = 0 if offset > output.size else offset  # The file was truncated.
        data = output.part(offset, min(query.limit, output.size - offset))
        data = whole(data, last=not captured.is_live and offset + len(data) >= output.size)
        position = {"is_live": captured.is_live, "size": output.size, "offset": offset, "next": offset + len(data)}
        return {**source, **position, "text": data.decode("utf-8", "replace")}


def whole(data: bytes, last: bool) -> bytes:
    """Return the data without an incomplete UTF-8 character at its end, unless the output ends there."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:  # a continuation byte
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back and len(data) > back and not last else data
    return data


RUNS = (
    Route("GET", "/api/v1/runs/{id}", show, READ, "what one claim did", nouns.Run),
)  # fmt: skip
OUTPUT = (
    Route(
        "GET", "/api/v1/jobs/{id}/output", read_output, READ, "what its newest run wrote, or the one named",
        responses.Output, query=requests.OutputFilter, is_async=True, operation="output.read",
    ),
)  # fmt: skip
