"""The store for coroutines: threads with a connection each, and the batching of jobs that are added one by one."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rota.api.errors import NoAnswer
from rota.core.errors import BadInput, Conflict, NotFound, Refused, StoreError, TakesLong
from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.access import AccessToken
    from rota.core.job import NewJob
    from rota.settings import Settings
    from rota.store.store import Store

T = TypeVar("T")
ANSWER_WITHIN, INLINE_WITHIN = 30.0, 0.002
MOST_IN_BATCH = 64


class StorePool:
    """A few threads that each open the database with their first call, so that no call holds up the event loop."""

    def __init__(self, url: str | None, settings: Settings, threads: int, name: str) -> None:
        self._url = url
        self._settings = settings
        self._own = threading.local()
        self._opened: list[Store] = []
        self._threads = ThreadPoolExecutor(threads, f"rota-{name}")

    async def ask(self, function: Callable[[Store], T], actor: str = "http") -> T:
        """Call a function with a store in a thread, and return its result. Its changes are recorded as the actor's.

        Raises:
            NoAnswer: It took longer than `ANSWER_WITHIN` seconds. It goes on, so its changes may still be made.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return await loop.run_in_executor(self._threads, partial(self._call, function, actor))
        except TimeoutError:
            text = f"the store did not answer within {ANSWER_WITHIN:g}s: what was asked for may yet be done"
            raise NoAnswer(text) from None

    async def ask_inline(self, function: Callable[[Store], T]) -> T:
        """Call a function that only reads in the event loop; if it takes long, call it again in a thread."""
        # On SQLite a turn to a thread costs more than most reads: SQLite lets go of the GIL at each statement, and the
        # thread waits for it again (decision 26).
        try:
            store = self._store()
            store.database.hurry(INLINE_WITHIN)
            return function(store)
        except TakesLong:
            return await self.ask(function)

    def _call(self, function: Callable[[Store], T], actor: str) -> T:
        store = self._store()
        store.actor = actor
        return function(store)

    def _store(self) -> Store:
        """Return this thread's store, without the access token of its last caller."""
        store: Store | None = getattr(self._own, "store", None)
        if store is None:
            from rota.store.open import open_store

            try:
                store = self._own.store = open_store(self._url, self._settings)
            except NotFound as problem:
                # The database itself is missing, so this must not become a 404.
                raise StoreError(str(problem)) from problem
            self._opened.append(store)
        store.access = None
        return store

    def close(self) -> None:
        """Wait for the threads to end and close their connections."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for store in self._opened:
            store.close()
        self._opened.clear()


class _Pending(Record):
    """A job to be added, who adds it, and the future of its id."""

    new: NewJob
    actor: str
    access: AccessToken | None
    id: asyncio.Future[int]

    @property
    def caller(self) -> tuple[str, str | None]:
        return self.actor, None if self.access is None else self.access.id


class EnqueueBatcher:
    """Adds jobs that arrive one by one in shared transactions: each takes all that arrived during the last one."""

    def __init__(self, writers: StorePool) -> None:
        self._writers = writers
        self._queue: deque[_Pending] = deque()
        self._task: asyncio.Task[None] | None = None

    async def add(self, new: NewJob, actor: str, access: AccessToken | None = None) -> int:
        """Add a job and return its id once it is durable. Refused if the caller's token is revoked before that."""
        id: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append(_Pending(new, actor, access, id))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await id

    async def _run(self) -> None:
        while self._queue:
            batch = [self._queue.popleft()]
            # One caller per transaction: the store records one actor and checks one token for all of it (decision 26).
            while self._queue and self._queue[0].caller == batch[0].caller and len(batch) < MOST_IN_BATCH:
                batch.append(self._queue.popleft())
            await self._add(batch)

    async def _add(self, batch: list[_Pending]) -> None:
        """Add all jobs or none. If the batch is refused, add each by itself, so that only the faulty ones fail."""
        try:
            ids = await self._writers.ask(lambda store: _add_all(store, batch), batch[0].actor)
        except (BadInput, Conflict, NotFound, Refused) as refusal:
            if len(batch) > 1:
                for pending in batch:
                    await self._add([pending])
                return
            _fail(batch, refusal)
        except Exception as problem:
            # The transaction may have been committed, so it is not tried again.
            _fail(batch, problem)
        else:
            for pending, id in zip(batch, ids, strict=True):
                if not pending.id.done():
                    pending.id.set_result(id)


def _add_all(store: Store, batch: list[_Pending]) -> list[int]:
    store.access = batch[0].access
    return store.jobs.add_many([pending.new for pending in batch])


def _fail(batch: list[_Pending], problem: Exception) -> None:
    for pending in batch:
        if not pending.id.done():
            pending.id.set_exception(problem)
