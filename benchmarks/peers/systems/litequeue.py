"""litequeue: it has no workers of its own, so each is a loop that pops, runs and reports."""

import os
import time
from typing import Any

from litequeue import LiteQueue

from benchmarks.peers import work

IDLE = 0.01


class Litequeue(work.Peer):
    def prepare(self) -> None:
        self.open()

    def open(self) -> Any:
        self._queue = LiteQueue(os.path.join(work.place(), "queue.db"), timeout=30)

    def add(self, what: str) -> Any:
        self._queue.put(what)

    def add_many(self, what: str, jobs: int) -> Any:
        with self._queue.transaction():
            for _ in range(jobs):
                self._queue.put(what)

    def work(self, workers: int) -> None:
        work.run_all(work.loops(__name__), workers)

    def loop(self) -> None:
        self.open()
        while True:
            message = self._queue.pop()
            if message is None:
                time.sleep(IDLE)
                continue
            work.do(message.data)
            self._queue.done(message.message_id)


PEER = Litequeue()
