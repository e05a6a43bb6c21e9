"""persist-queue: its queue with acknowledgements; each worker is a loop that gets, runs and acknowledges."""

import os
import sqlite3
import time
from typing import Any

from persistqueue import Empty, SQLiteAckQueue

from benchmarks.peers import work

IDLE = 0.01


class PersistQueue(work.Peer):
    def prepare(self) -> None:
        self.open()

    def open(self) -> Any:
        # Resuming would give a job that another process has in hand to a second one.
        path = os.path.join(work.place(), "queue")
        self._queue = SQLiteAckQueue(path, multithreading=True, auto_resume=False, timeout=30)

    def add(self, what: str) -> Any:
        self._queue.put(what)

    def work(self, workers: int) -> None:
        work.run_all(work.loops(__name__), workers)

    def loop(self) -> None:
        self.open()
        while True:
            try:
                got = self._queue.get(block=False, raw=True)
            except Empty:
                time.sleep(IDLE)
                continue
            except sqlite3.OperationalError:  # another one writes
                continue
            work.do(got["data"])
            self._queue.ack(id=got["pqid"])


PEER = PersistQueue()
