"""rota: an orchestrator with its defaults."""

import os
from typing import Any

from benchmarks.peers import work
from rota import App

app = App()


@app.task()
def job(what: str) -> None:
    work.do(what)


class Rota(work.Peer):
    def prepare(self) -> None:
        self.open()

    def open(self) -> Any:
        self._store = app.store

    def add(self, what: str) -> Any:
        job.enqueue(what=what)

    def add_many(self, what: str, jobs: int) -> Any:
        app.enqueue_many(job.job(what=what) for _ in range(jobs))

    def work(self, workers: int) -> None:
        words = [work.command("rota"), "orchestrator", "start", "--app", f"{__name__}:app", "--no-http"]
        os.execv(words[0], [*words, "--pool", f"default={workers}"])


PEER = Rota()
