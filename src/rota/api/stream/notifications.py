"""Wake-up notifications of the store: for coroutines, which share one listener, and as a stream over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rota.api.route import SSE
from rota.api.stream.readers import until_disconnected
from rota.core.errors import RotaError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from rota.api.request import ApiRequest
    from rota.api.store_pool import StorePool
    from rota.store.engine.database import Listener

KEEP_ALIVE = 15.0


class Notifications:
    """Counts the notifications of the store. Read `count` before the store, then wait until it differs: none is lost.

    `events` chooses between notifications of new events and those of work to be done.
    """

    def __init__(self, stores: StorePool, events: bool) -> None:
        self._stores = stores
        self._events = events
        self._listener: Listener | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._opening = asyncio.Lock()
        self.count = 0
        self.is_over = False

    async def open(self) -> None:
        """Start to listen. Further calls change nothing."""
        async with self._opening:
            if self._listener is None:
                self._listener = await self._stores.ask(lambda store: store.database.listen(events=self._events))
                if self._listener.fileno() >= 0:
                    asyncio.get_running_loop().add_reader(self._listener.fileno(), self._read)

    async def wait(self, count: int, seconds: float, gone: asyncio.Task[None] | None = None) -> None:
        """Wait until there were more notifications than `count`, the client is gone, or the time is over."""
        if self.count != count or seconds <= 0:
            return
        notified = asyncio.get_running_loop().create_future()
        self._waiting.add(notified)
        try:
            either: list[asyncio.Future[None]] = [notified] if gone is None else [notified, gone]
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.discard(notified)

    def _read(self) -> None:
        assert self._listener is not None
        self._listener.wait(0)
        self._notify()

    def end(self) -> None:
        """Wake every waiter for the last time."""
        self.is_over = True
        self._notify()

    def _notify(self) -> None:
        self.count += 1
        for notified in self._waiting:
            if not notified.done():
                notified.set_result(None)

    def close(self) -> None:
        if self._listener is not None:
            try:
                asyncio.get_running_loop().remove_reader(self._listener.fileno())
            except RuntimeError:  # The loop has ended, and its reader with it.
                pass
            self._listener.close()
            self._listener = None


class NotificationStream:
    """An ASGI response of one line per notification of work, until the client is gone, its token is revoked or the
    server ends.
    """

    def __init__(self, request: ApiRequest) -> None:
        request.state.open_requests.begin(request.token)
        self._request = request
        self._notifications = request.state.job_notifications

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(until_disconnected(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", SSE.encode())]})
            while not gone.done() and not self._notifications.is_over and await self._is_authorised():
                count = self._notifications.count
                await send({"type": "http.response.body", "body": b": ring\n\n", "more_body": True})
                await self._notifications.wait(count, KEEP_ALIVE, gone)
            if not gone.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            self._request.state.open_requests.end(self._request.token)

    async def _is_authorised(self) -> bool:
        try:
            await self._request.reauthenticate_shared()
        except RotaError:
            return False
        return True
