"""SAQ, on PostgreSQL or Redis: its own worker, ten jobs at a time, which is its default."""

from typing import Any

from saq import Queue

from benchmarks.peers import work

queue = Queue.from_url(work.place(), name="bench")


async def job(ctx: Any, *, what: str) -> None:
    await work.do_async(what)


settings = {"queue": queue, "functions": [job]}


class Saq(work.Peer):
    async def open(self) -> Any:
        await queue.connect()

    async def add(self, what: str) -> Any:
        await queue.enqueue("job", what=what, timeout=0)

    def work(self, workers: int) -> None:
        work.run_all([work.command("saq"), f"{__name__}.settings"], workers)


PEER = Saq()
