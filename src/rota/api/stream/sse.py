"""Server-sent events: one response per reader of the feed, with keep-alives, until the reader is gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rota.api.route import SSE

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from rota.api.stream.hub import Hub, Reader

RETRY = b"retry: 1000\n\n"
# An event, because a browser tells a page of no comment; without an id or a document, so that nobody takes it for news.
ALIVE = b"event: alive\ndata:\n\n"


class Stream:
    """An ASGI response that tells a reader everything, until either side ends it."""

    def __init__(self, hub: Hub, reader: Reader, first: bytes) -> None:
        self._hub = hub
        self._reader = reader
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_until_gone(receive, self._reader))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", SSE.encode())]})
            await self._tell(send)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._hub.leave(self._reader)
            gone.cancel()

    async def _tell(self, send: Send) -> None:
        piece = RETRY + self._first
        self._first = b""
        while True:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await self._reader.wait()
            if self._reader.is_over:
                return
            piece = await self._hub.resync(self._reader) if self._reader.is_lost else self._reader.take()
            piece = piece or ALIVE


async def _until_gone(receive: Receive, reader: Reader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.end()
