"""taskito: a Rust core over SQLite."""

import os
from typing import Any

from taskito import Queue

from benchmarks.peers import work

queue = Queue(db_path=os.path.join(work.place(), "taskito.db"))


@queue.task(name="job")
def job(what: str) -> None:
    work.do(what)


class Taskito(work.Peer):
    def add(self, what: str) -> Any:
        job.delay(what)

    def add_many(self, what: str, jobs: int) -> Any:
        queue.enqueue_many("job", [(what,)] * jobs)

    def work(self, workers: int) -> None:
        work.run_all([work.command("taskito"), "worker", "--app", f"{__name__}:queue"], workers)


PEER = Taskito()
