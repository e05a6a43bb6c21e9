"""The state of one app: threads with the store, sessions, open requests, notifications and the hub of the live feed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rota.api.auth import Proxies, Sessions
from rota.api.errors import TooMany
from rota.api.metrics import ProcessMetrics
from rota.api.store_pool import EnqueueBatcher, StorePool
from rota.api.stream.hub import Hub
from rota.api.stream.notifications import Notifications
from rota.core.times import SECOND
from rota.store.open import POSTGRES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.api.route import Route
    from rota.core.access import AccessToken
    from rota.settings import Settings

READERS, WRITERS = 2, 2
MOST_OPEN = 300
_NOTED_EVERY, _CLOSED_WITHIN = 60.0, 2.0


class OpenRequests:
    """Limits how many requests of one token wait for jobs, output or notifications: each wakes up with every change."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def begin(self, token: AccessToken | None) -> None:
        """Count one more request of a token, or refuse it."""
        id = token.id if token else ""
        if self._counts[id] >= MOST_OPEN:
            raise TooMany(f"this token has {MOST_OPEN:,} waiting requests open already: try again when one has ended")
        self._counts[id] += 1

    def end(self, token: AccessToken | None) -> None:
        id = token.id if token else ""
        self._counts[id] -= 1
        if not self._counts[id]:
            del self._counts[id]

    @contextmanager
    def one(self, token: AccessToken | None) -> Iterator[None]:
        """Count a request for as long as the block lasts."""
        self.begin(token)
        try:
            yield
        finally:
            self.end(token)


class AppState:
    """What one app keeps for one database. Connections are opened when they are first needed."""

    def __init__(
        self, url: str | None, settings: Settings, routes: tuple[Route, ...], key: bytes | None = None
    ) -> None:
        self.settings = settings
        self.routes = routes
        self.is_sqlite = url is None or not url.startswith(POSTGRES)
        self.readers = StorePool(url, settings, READERS, "read")
        self.writers = StorePool(url, settings, 1 if self.is_sqlite else WRITERS, "write")
        self.enqueue_batcher = EnqueueBatcher(self.writers)
        self._feed_pool = StorePool(url, settings, 1, "feed")
        self.sessions = Sessions(key)
        self.proxies = Proxies(settings.http_proxies)
        self.job_notifications = Notifications(self.readers, events=False)
        self.open_requests = OpenRequests()
        self.authentications: dict[object, asyncio.Future[Any]] = {}
        self.ready_checks: dict[object, asyncio.Future[Any]] = {}
        self.process_metrics = ProcessMetrics()
        self.hub = Hub(self._feed_pool, settings.poll_interval / SECOND, self.process_metrics)
        self._noted: dict[str, float] = {}
        self._noting: set[asyncio.Task[None]] = set()

    def note_use(self, token: AccessToken | None) -> None:
        """Record in the store that a token was used, at most once a minute, without delaying the request."""
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
        """End streams, threads and connections. A thread that still waits for the write lock is abandoned."""
        await self.hub.close()
        self.job_notifications.close()
        pools = (self.readers, self.writers, self._feed_pool)
        closing = [threading.Thread(target=pool.close, daemon=True) for pool in pools]
        for thread in closing:
            thread.start()
        deadline = time.monotonic() + _CLOSED_WITHIN
        while any(thread.is_alive() for thread in closing) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
