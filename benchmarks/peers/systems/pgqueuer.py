"""pgqueuer: its own runner on uvloop, as its command has it; `BENCH_BATCH` is how many jobs it takes, 10 unless told.

Its command itself fails with the newest release of the library that reads its options.
"""

import asyncio
import os
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers import work


async def factory() -> PgQueuer:
    queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(work.place()))

    @queuer.entrypoint("job")
    async def job(given: Job) -> None:
        await work.do_async((given.payload or b"").decode())

    return queuer


class Pgqueuer(work.Peer):
    def prepare(self) -> None:
        async def install() -> None:
            await self.open()
            await self._queries.install()

        asyncio.run(install())

    async def open(self) -> Any:
        self._queries = Queries(AsyncpgDriver(await asyncpg.connect(work.place())))

    async def add(self, what: str) -> Any:
        await self._queries.enqueue("job", what.encode(), 0)

    async def add_many(self, what: str, jobs: int) -> Any:
        for count in [1000] * (jobs // 1000) + [jobs % 1000] * (jobs % 1000 > 0):
            await self._queries.enqueue(["job"] * count, [what.encode()] * count, [0] * count)

    def work(self, workers: int) -> None:
        work.run_all(work.loops(__name__), workers)

    def loop(self) -> None:
        async def run() -> None:
            await (await factory()).run(batch_size=int(os.environ.get("BENCH_BATCH", "10")))

        uvloop.run(run())


PEER = Pgqueuer()
