"""huey: a file with `fsync=True`, which waits for the disk at every commit."""

import os
from typing import Any

from huey import SqliteHuey

from benchmarks.peers import work

huey = SqliteHuey(filename=os.path.join(work.place(), "huey.db"), fsync=True, results=False)


@huey.task()
def job(what: str) -> None:
    work.do(what)


class Huey(work.Peer):
    def add(self, what: str) -> Any:
        job(what)

    def work(self, workers: int) -> None:
        words = [work.command("huey_consumer"), f"{__name__}.huey", "-k", "process", "-w", str(workers), "-q"]
        os.execv(words[0], words)


PEER = Huey()
