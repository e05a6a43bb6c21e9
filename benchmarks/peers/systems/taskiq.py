"""taskiq: its broker over Redis streams, the one that acknowledges."""

import os
from typing import Any

from taskiq_redis import RedisStreamBroker

from benchmarks.peers import work

broker = RedisStreamBroker(url=work.place(), consumer_id="0")


@broker.task(task_name="job")
async def job(what: str) -> None:
    await work.do_async(what)


class Taskiq(work.Peer):
    async def open(self) -> Any:
        await broker.startup()

    async def add(self, what: str) -> Any:
        await job.kiq(what)

    def work(self, workers: int) -> None:
        words = [work.command("taskiq"), "worker", f"{__name__}:broker", "--workers", str(workers)]
        os.execv(words[0], [*words, "--log-level", "ERROR"])


PEER = Taskiq()
