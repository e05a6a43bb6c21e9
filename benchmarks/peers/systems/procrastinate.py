"""procrastinate: its own worker, one job at a time, which is its default."""

import asyncio
from typing import Any

from procrastinate import App, PsycopgConnector

from benchmarks.peers import work

app = App(connector=PsycopgConnector(conninfo=work.place()))


@app.task(name="job")
async def job(what: str) -> None:
    await work.do_async(what)


class Procrastinate(work.Peer):
    def prepare(self) -> None:
        async def apply() -> None:
            async with app.open_async():
                await app.schema_manager.apply_schema_async()

        asyncio.run(apply())

    async def open(self) -> Any:
        await app.open_async()

    async def add(self, what: str) -> Any:
        await job.defer_async(what=what)

    async def add_many(self, what: str, jobs: int) -> Any:
        for count in [1000] * (jobs // 1000) + [jobs % 1000] * (jobs % 1000 > 0):
            await job.batch_defer_async(*[{"what": what}] * count)

    def work(self, workers: int) -> None:
        work.run_all([work.command("procrastinate"), "--app", f"{__name__}.app", "worker"], workers)


PEER = Procrastinate()
