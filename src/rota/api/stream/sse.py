"""Server-sent events: one response per reader of the live feed, with keep-alives, until the client is gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rota.api.route import SSE

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from rota.api.stream.hub import Hub, Reader

RETRY = b"retry: 1000\n\n"
# An event, because browsers do not report comments to a page; without id and document, so that it is not a change.
ALIVE = b"event: alive\ndata:\n\n"


class Stream:
    """An ASGI response that sends a reader's messages until either side ends it."""

    def __init__(self, hub: Hub, reader: Reader, first: bytes) -> None:
        self._hub = hub
        self._reader = reader
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(self._end_with_client(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", SSE.encode())]})
            await self._send_messages(send)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._hub.leave(self._reader)
            gone.cancel()

    async def _send_messages(self, send: Send) -> None:
        messages = RETRY + self._first
        self._first = b""
        while True:
            await send({"type": "http.response.body", "body": messages, "more_body": True})
            await self._reader.wait()
            if self._reader.is_over:
                return
            messages = await self._hub.resync(self._reader) if self._reader.is_lost else self._reader.take()
            messages = messages or ALIVE

    async def _end_with_client(self, receive: Receive) -> None:
        await until_disconnected(receive)
        self._reader.end()


async def until_disconnected(receive: Receive) -> None:
    """Return once the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
