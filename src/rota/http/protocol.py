"""uvicorn's protocol with limits on those who send slowly and those who do not read."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

HEADERS_WITHIN = 10.0
UNREAD_FOR_MS = 60_000
UNREAD_BYTES = 32 * 1024


def protocol() -> type[asyncio.Protocol]:
    """The faster parser where it is installed."""
    base: Any
    try:
        from uvicorn.protocols.http import httptools_impl

        base = httptools_impl.HttpToolsProtocol
    except ImportError:
        from uvicorn.protocols.http import h11_impl

        base = h11_impl.H11Protocol

    class Careful(base):  # type: ignore[misc]
        """Closes a connection whose headers take too long, or that leaves a minute's worth unread."""

        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
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
            if self._has_request() and self._late is not None:
                self._late.cancel()
                self._late = None

        def connection_lost(self, exc: Exception | None) -> None:
            if self._late is not None:
                self._late.cancel()
            super().connection_lost(exc)

        def _expect_headers(self) -> None:
            if self._late is None and not self._has_request():
                self._late = self.loop.call_later(HEADERS_WITHIN, self._give_up)

        def _has_request(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _give_up(self) -> None:
            self._late = None
            if not self._has_request():
                self.transport.close()

    return Careful
