"""Readers of the live feed: a bounded buffer for each, the share of a token, and the response of server-sent events."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from rota.api.errors import TooMany
from rota.api.route import SSE
from rota.live.feed import EVERYTHING

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from rota.api.stream.hub import Hub

RETRY = b"retry: 1000\n\n"
# An event, because browsers do not report comments to a page; without id and document, so that it is not a change.
ALIVE = b"event: alive\ndata:\n\n"
MOST_WAITING, MOST_BYTES = 256, 256 * 1024
MOST_OF_TOKEN = 1000
MOST_PATTERNS = 300  # different ones per token: each is matched against the topics of every change


class Reader:
    """One subscriber. Its buffer is bounded: when it overflows, it is dropped and the reader gets a resync."""

    def __init__(self, patterns: tuple[str, ...], token_id: str | None) -> None:
        self.patterns = patterns
        self.token_id = token_id
        self.is_lost = False
        self.is_over = False
        self._buffer: list[bytes] = []
        self._messages = self._bytes = 0
        self._wakeup: asyncio.Future[None] | None = None

    def put(self, messages: bytes, count: int) -> None:
        if self.is_lost:
            return
        self._buffer.append(messages)
        self._messages += count
        self._bytes += len(messages)
        if self._messages > MOST_WAITING or self._bytes > MOST_BYTES:
            self.lose()
        self.wake()

    def lose(self) -> None:
        """Drop the buffer. The reader gets a resync instead."""
        self.take()
        self.is_lost = True
        self.wake()

    def end(self) -> None:
        self.is_over = True
        self.wake()

    def wake(self) -> None:
        """Wake the reader even if its buffer is empty."""
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def wait(self) -> None:
        """Wait until there are messages, the state changes, or `wake` is called."""
        if not (self._buffer or self.is_lost or self.is_over):
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup

    def take(self) -> bytes:
        """Empty the buffer and return its messages."""
        taken = self._buffer[0] if len(self._buffer) == 1 else b"".join(self._buffer)
        self._buffer.clear()
        self._messages = self._bytes = 0
        return taken


class Share:
    """The readers that one token has open, and their patterns."""

    def __init__(self) -> None:
        self.readers = 0
        self.patterns: Counter[str] = Counter()

    def add(self, patterns: tuple[str, ...]) -> None:
        """Count one more reader, or refuse it."""
        if self.readers >= MOST_OF_TOKEN:
            raise TooMany(f"this token has {MOST_OF_TOKEN:,} readers of the feed open: close some of them")
        if len(self.patterns.keys() | set(patterns)) > MOST_PATTERNS:
            raise TooMany(
                f"the readers of this token would follow more than {MOST_PATTERNS} different topics: close some of "
                "them, or use fewer topics, because * spans segments"
            )
        self.readers += 1
        self.patterns.update(patterns or EVERYTHING)

    def remove(self, patterns: tuple[str, ...]) -> None:
        self.readers -= 1
        self.patterns.subtract(patterns or EVERYTHING)
        self.patterns = +self.patterns


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
