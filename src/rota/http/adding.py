"""Jobs that are added one by one, by many at once: those that wait for the writer become durable together."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from rota.core.errors import BadInput, Conflict, NotFound, Refused

if TYPE_CHECKING:
    from rota.core.job import NewJob
    from rota.http.stores import Stores

    Waiting = tuple[NewJob, str, asyncio.Future[int]]

MOST_AT_ONCE = 64


class Adding:
    """One transaction at a time, with all that came while the last one was made; each gets its own answer."""

    def __init__(self, writers: Stores) -> None:
        self._writers = writers
        self._waiting: deque[Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def add(self, new: NewJob, actor: str) -> int:
        """The job's id, once it is durable."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((new, actor, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft()]
            while self._waiting and self._waiting[0][1] == batch[0][1] and len(batch) < MOST_AT_ONCE:
                batch.append(self._waiting.popleft())
            await self._add(batch)

    async def _add(self, batch: list[Waiting]) -> None:
        """All or none; if they are refused, each by itself, so that nobody hears of another's mistake."""
        jobs, actor = [new for new, _, _ in batch], batch[0][1]
        try:
            ids = await self._writers.ask(lambda store: store.jobs.add_many(jobs), actor)
        except (BadInput, Conflict, NotFound, Refused) as refusal:
            if len(batch) > 1:
                for each in batch:
                    await self._add([each])
                return
            _fail(batch, refusal)
        except Exception as problem:  # whether it is done may not be known, so it is not tried again
            _fail(batch, problem)
        else:
            for (_, _, answer), id in zip(batch, ids, strict=True):
                if not answer.done():
                    answer.set_result(id)


def _fail(batch: list[Waiting], problem: Exception) -> None:
    for _, _, answer in batch:
        if not answer.done():
            answer.set_exception(problem)
