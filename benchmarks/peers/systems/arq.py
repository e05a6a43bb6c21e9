"""arq: its own worker, ten jobs at a time and a poll every half second, which are its defaults."""

from typing import Any

from arq import create_pool
from arq.connections import RedisSettings

from benchmarks.peers import work


async def job(ctx: Any, what: str) -> None:
    await work.do_async(what)


class WorkerSettings:
    functions = (job,)
    redis_settings = RedisSettings.from_dsn(work.place())


class Arq(work.Peer):
    async def open(self) -> Any:
        self._pool = await create_pool(WorkerSettings.redis_settings)

    async def add(self, what: str) -> Any:
        await self._pool.enqueue_job("job", what)

    def work(self, workers: int) -> None:
        work.run_all([work.command("arq"), f"{__name__}.WorkerSettings"], workers)


PEER = Arq()
