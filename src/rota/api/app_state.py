"""All that one app keeps while it runs: threads with the store, sessions, bells, and the hub of the live feed."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

from rota.api.auth import Proxies, Sessions
from rota.api.enqueue_batcher import Adding
from rota.api.metrics import Own
from rota.api.store_pool import Stores
from rota.api.stream.hub import Hub
from rota.api.stream.notifications import Bell
from rota.api.stream.waiting import Waiting
from rota.core.times import SECOND
from rota.store.open import POSTGRES

if TYPE_CHECKING:
    from rota.api.route import Route
    from rota.core.access import AccessToken
    from rota.settings import Settings

READERS, WRITERS = 2, 2
_NOTED_EVERY, _CLOSED_WITHIN = 60.0, 2.0


class Site:
    """One database behind one app. Everything is opened when it is first needed."""

    def __init__(
        self, url: str | None, settings: Settings, routes: tuple[Route, ...], key: bytes | None = None
    ) -> None:
        self.settings = settings
        self.routes = routes
        self.is_near = url is None or not url.startswith(POSTGRES)
        self.readers = Stores(url, settings, READERS, "read")
        self.writers = Stores(url, settings, 1 if self.is_near else WRITERS, "write")
        self.adding = Adding(self.writers)
        self._feeder = Stores(url, settings, 1, "feed")
        self.sessions = Sessions(key)
        self.proxies = Proxies(settings.http_proxies)
        self.work = Bell(self.readers, events=False)
        self.waiting = Waiting()
        self.proofs: dict[object, asyncio.Future[Any]] = {}
        self.looks: dict[object, asyncio.Future[Any]] = {}
        self.own = Own()
        self.hub = Hub(self._feeder, settings.poll_interval / SECOND, self.own)
        self._noted: dict[str, float] = {}
        self._noting: set[asyncio.Task[None]] = set()

    def note_use(self, token: AccessToken | None) -> None:
        """Remember in the store, beside the request, that a token was used."""
        now = time.monotonic()
        if token is None or now - self._noted.get(token.id, -_NOTED_EVERY) < _NOTED_EVERY:
            return
        self._noted[token.id] = now
        task = asyncio.create_task(self._note(token))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _note(self, token: AccessToken) -> None:
        await self.writers.ask(lambda store: store.tokens.used(token))

    async def close(self) -> None:
        """End streams, threads and connections; a thread that waits for the write lock is left behind."""
        await self.hub.close()
        self.work.close()
        pools = (self.readers, self.writers, self._feeder)
        closing = [threading.Thread(target=stores.close, daemon=True) for stores in pools]
        for thread in closing:
            thread.start()
        deadline = time.monotonic() + _CLOSED_WITHIN
        while any(thread.is_alive() for thread in closing) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
