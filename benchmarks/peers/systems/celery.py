"""celery: prefork, acknowledged late and given back when a process is lost, results off."""

import os
from typing import Any

from celery import Celery

from benchmarks.peers import work

app = Celery(__name__, broker=work.place())
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, task_ignore_result=True)


@app.task(name="job")
def job(what: str) -> None:
    work.do(what)


class CeleryPeer(work.Peer):
    def add(self, what: str) -> Any:
        job.delay(what)

    def work(self, workers: int) -> None:
        words = [work.command("celery"), "-A", __name__, "worker", "-c", str(workers), "-l", "ERROR"]
        os.execv(words[0], words)


PEER = CeleryPeer()
