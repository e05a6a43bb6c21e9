"""The store for coroutines: a few threads with a connection each, so that no call ever holds up the event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rota.api.errors import NoAnswer
from rota.core.errors import NotFound, StoreError, TakesLong

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.settings import Settings
    from rota.store.store import Store

Answer = TypeVar("Answer")
WITHIN, GLANCE = 30.0, 0.002


class Stores:
    """Threads that each open the database when they are first asked."""

    def __init__(self, url: str | None, settings: Settings, threads: int, name: str) -> None:
        self._url = url
        self._settings = settings
        self._own = threading.local()
        self._opened: list[Store] = []
        self._threads = ThreadPoolExecutor(threads, f"rota-{name}")

    async def ask(self, function: Callable[[Store], Answer], actor: str = "http") -> Answer:
        """What a function of the store answers; changes it makes are told as the actor's."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(WITHIN):
                return await loop.run_in_executor(self._threads, partial(self._answer, function, actor))
        except TimeoutError:
            raise NoAnswer(f"the store did not answer within {WITHIN:g}s: what was asked for may yet be done") from None

    async def glance(self, function: Callable[[Store], Answer]) -> Answer:
        """The same for a look at a file: at once, because a turn to a thread costs more, unless it takes long."""
        try:
            store = self._store()
            store.database.hurry(GLANCE)
            return function(store)
        except TakesLong:
            return await self.ask(function)

    def _answer(self, function: Callable[[Store], Answer], actor: str) -> Answer:
        store = self._store()
        store.actor = actor
        return function(store)

    def _store(self) -> Store:
        """This thread's, in nobody's name yet."""
        store: Store | None = getattr(self._own, "store", None)
        if store is None:
            from rota.store.open import open_store

            try:
                store = self._own.store = open_store(self._url, self._settings)
            except NotFound as problem:  # not that what was asked for is not there: nothing is
                raise StoreError(str(problem)) from problem
            self._opened.append(store)
        store.access = None
        return store

    def close(self) -> None:
        """Let the threads end and close their connections."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for store in self._opened:
            store.close()
        self._opened.clear()
