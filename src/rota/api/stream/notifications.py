"""The store's bell for coroutines: any number of them wait for one listener."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.api.store_pool import Stores
    from rota.store.engine.database import Listener


class Bell:
    """Counts its rings, so that whoever looked at the store before a ring does not sleep through it."""

    def __init__(self, stores: Stores, events: bool) -> None:
        self._stores = stores
        self._events = events
        self._listener: Listener | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._opening = asyncio.Lock()
        self.rings = 0
        self.is_over = False

    async def open(self) -> None:
        """Hear from now on; a second call changes nothing."""
        async with self._opening:
            if self._listener is None:
                self._listener = await self._stores.ask(lambda store: store.database.listen(events=self._events))
                if self._listener.fileno() >= 0:
                    asyncio.get_running_loop().add_reader(self._listener.fileno(), self._ring)

    async def wait(self, seen: int, seconds: float, gone: asyncio.Task[None] | None = None) -> None:
        """Until it has rung more often than was seen, whoever waits is gone, or so long."""
        if self.rings != seen or seconds <= 0:
            return
        rung = asyncio.get_running_loop().create_future()
        self._waiting.add(rung)
        try:
            both: list[asyncio.Future[None]] = [rung] if gone is None else [rung, gone]
            await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.discard(rung)

    def _ring(self) -> None:
        assert self._listener is not None
        self._listener.wait(0)
        self._wake()

    def end(self) -> None:
        """Nobody need wait any more."""
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        self.rings += 1
        for rung in self._waiting:
            if not rung.done():
                rung.set_result(None)

    def close(self) -> None:
        if self._listener is not None:
            try:
                asyncio.get_running_loop().remove_reader(self._listener.fileno())
            except RuntimeError:  # the loop is gone, and with it the reader
                pass
            self._listener.close()
            self._listener = None
