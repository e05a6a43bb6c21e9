"""dramatiq: its own command, with its default of eight threads for each process."""

import os
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers import work

broker = RedisBroker(url=work.place())
dramatiq.set_broker(broker)


@dramatiq.actor
def job(what: str) -> None:
    work.do(what)


class Dramatiq(work.Peer):
    def add(self, what: str) -> Any:
        job.send(what)

    def work(self, workers: int) -> None:
        words = [work.command("dramatiq"), __name__, "--processes", str(workers)]
        os.execv(words[0], words)


PEER = Dramatiq()
