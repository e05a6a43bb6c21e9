"""uvicorn's HTTP/1.1 protocol on h11, with limits on idle connections, slow senders, large heads and slow readers."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HANDSHAKE_WITHIN = HEADERS_WITHIN = 10.0
LARGEST_INCOMPLETE = 32 * 1024  # bytes of a request's head, a chunk's head or trailers
UNREAD_FOR_MS = 60_000
UNREAD_BYTES = 32 * 1024
MOST_IDLE = 2000  # Above the backlog: a whole backlog may be accepted before its first connection is read.


class BoundedH11(H11Protocol):
    """Closes a connection whose headers take too long, or that reads nothing for a minute.

    Of the connections without a complete request, the oldest are closed for new ones, so that nobody can exhaust the
    limit by holding many. h11 bounds what it buffers; httptools does not (decision 17).
    """

    most_idle: ClassVar = MOST_IDLE
    _idle: ClassVar[dict[BoundedH11, None]] = {}  # oldest first
    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._mark_idle()
        transport.set_write_buffer_limits(high=UNREAD_BYTES)
        peer = transport.get_extra_info("socket")
        if peer is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_FOR_MS)
        if peer is not None and hasattr(
            socket, "TCP_NOTSENT_LOWAT"
        ):  # Otherwise the kernel buffers megabytes per connection.
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNREAD_BYTES)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        self._expect_headers()
        super().data_received(data)
        if self._has_request():
            if not self.cycle.more_body:
                self._idle.pop(self, None)
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._has_request() or self.cycle.more_body:  # Otherwise the next request has arrived already.
            self._mark_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.pop(self, None)
        if self._header_timer is not None:
            self._header_timer.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # A response has begun.
            self.transport.close()

    def _mark_idle(self) -> None:
        self._idle.pop(self, None)
        self._idle[self] = None
        if len(self._idle) > self.most_idle:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.transport.abort()  # without sending what it has not read

    def _expect_headers(self) -> None:
        if self._header_timer is None and not self._has_request():
            self._header_timer = self.loop.call_later(HEADERS_WITHIN, self._close_if_late)

    def _has_request(self) -> bool:
        # uvicorn sets `cycle` to None before the first request, though its annotation says otherwise.
        return not getattr(self.cycle, "response_complete", True)

    def _close_if_late(self) -> None:
        self._header_timer = None
        if not self._has_request():
            self.transport.close()
