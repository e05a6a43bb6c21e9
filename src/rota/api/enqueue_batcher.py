"""Jobs that are added one by one, by many at once: those that wait for the writer become durable together."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from rota.core.errors import BadInput, Conflict, NotFound, Refused
from rota.core.record import Record

if TYPE_CHECKING:
    from rota.api.store_pool import Stores
    from rota.core.access import AccessToken
    from rota.core.job import NewJob
    from rota.store.store import Store

MOST_AT_ONCE = 64


class _Waiting(Record):
    new: NewJob
    actor: str
    access: AccessToken | None
    answer: asyncio.Future[int]

    @property
    def caller(self) -> tuple[str, str | None]:
        return self.actor, None if self.access is None else self.access.id


class Adding:
    """One transaction at a time, with all that came while the last one was made; each gets its own answer."""

    def __init__(self, writers: Stores) -> None:
        self._writers = writers
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def add(self, new: NewJob, actor: str, access: AccessToken | None = None) -> int:
        """The job's id, once it is durable; refused if the caller's token was revoked before its turn came."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(new, actor, access, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft()]
            while self._waiting and self._waiting[0].caller == batch[0].caller and len(batch) < MOST_AT_ONCE:
                batch.append(self._waiting.popleft())
            await self._add(batch)

    async def _add(self, batch: list[_Waiting]) -> None:
        """All or none; if they are refused, each by itself, so that nobody hears of another's mistake."""
        try:
            ids = await self._writers.ask(lambda store: _add_all(store, batch), batch[0].actor)
        except (BadInput, Conflict, NotFound, Refused) as refusal:
            if len(batch) > 1:
                for each in batch:
                    await self._add([each])
                return
            _fail(batch, refusal)
        except Exception as problem:  # whether it is done may not be known, so it is not tried again
            _fail(batch, problem)
        else:
            for each, id in zip(batch, ids, strict=True):
                if not each.answer.done():
                    each.answer.set_result(id)


def _add_all(store: Store, batch: list[_Waiting]) -> list[int]:
    store.access = batch[0].access
    return store.jobs.add_many([each.new for each in batch])


def _fail(batch: list[_Waiting], problem: Exception) -> None:
    for each in batch:
        if not each.answer.done():
            each.answer.set_exception(problem)
