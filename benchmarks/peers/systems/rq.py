"""RQ: its default worker, which forks a process for each job."""

from typing import Any

from redis import Redis
from rq import Queue

from benchmarks.peers import work


class Rq(work.Peer):
    def open(self) -> Any:
        self._queue = Queue(connection=Redis.from_url(work.place()))

    def add(self, what: str) -> Any:
        self._queue.enqueue(work.do, what)

    def add_many(self, what: str, jobs: int) -> Any:
        for count in [1000] * (jobs // 1000) + [jobs % 1000] * (jobs % 1000 > 0):
            self._queue.enqueue_many([Queue.prepare_data(work.do, [what]) for _ in range(count)])

    def work(self, workers: int) -> None:
        work.run_all([work.command("rq"), "worker", "-q", "-u", work.place()], workers)


PEER = Rq()
