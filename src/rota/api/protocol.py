"""uvicorn's HTTP/1.1 protocol on h11, with limits on idle peers, slow senders, large headers and who does not read."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HANDSHAKE_WITHIN = HEADERS_WITHIN = 10.0
LARGEST_INCOMPLETE = 32 * 1024  # of a request's head, a chunk's head or trailers
UNREAD_FOR_MS = 60_000
UNREAD_BYTES = 32 * 1024
MOST_IDLE = 2000  # more than the backlog: that many may be accepted before the first of them is read


class Careful(H11Protocol):
    """Closes a connection whose headers take too long, or that leaves a minute's worth unread.

    Of connections without a whole request the oldest make room for new ones: nobody keeps others out by holding many.

    h11 is always installed with uvicorn and bounds what it buffers; httptools does not (decision 17).
    """

    most_idle: ClassVar = MOST_IDLE
    _idle: ClassVar[dict[Careful, None]] = {}  # in the order in which they became so
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._rest()
        transport.set_write_buffer_limits(high=UNREAD_BYTES)
        peer = transport.get_extra_info("socket")
        if peer is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_FOR_MS)
        if peer is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):  # else the system keeps megabytes for each
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNREAD_BYTES)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        self._expect_headers()
        super().data_received(data)
        if self._has_request():
            if not self.cycle.more_body:
                self._idle.pop(self, None)
            if self._late is not None:
                self._late.cancel()
                self._late = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._has_request() or self.cycle.more_body:  # else the next one has come already
            self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.pop(self, None)
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # a response is under way already
            self.transport.close()

    def _rest(self) -> None:
        self._idle.pop(self, None)
        self._idle[self] = None
        if len(self._idle) > self.most_idle:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.transport.abort()  # whatever it has not read

    def _expect_headers(self) -> None:
        if self._late is None and not self._has_request():
            self._late = self.loop.call_later(HEADERS_WITHIN, self._give_up)

    def _has_request(self) -> bool:
        # uvicorn sets `cycle` to None before the first request, though its annotation says otherwise.
        return not getattr(self.cycle, "response_complete", True)

    def _give_up(self) -> None:
        self._late = None
        if not self._has_request():
            self.transport.close()
