"""DBOS: durable workflows over SQLite; a job is a workflow on a queue, added by its client."""

import os
import threading
from typing import Any

from dbos import DBOS, DBOSClient

from benchmarks.peers import work

URL = f"sqlite:///{os.path.join(work.place(), 'dbos.db')}"
QUEUE, VERSION = "bench", "1"


@DBOS.workflow(name="job")
def job(what: str) -> None:
    work.do(what)


class Dbos(work.Peer):
    def prepare(self) -> None:
        self._launch("prepare")
        DBOS.destroy()

    def open(self) -> Any:
        self._client = DBOSClient(system_database_url=URL)

    def add(self, what: str) -> Any:
        self._client.enqueue({"queue_name": QUEUE, "workflow_name": "job", "app_version": VERSION}, what)

    def work(self, workers: int) -> None:
        work.run_all(work.loops(__name__), workers, EXECUTOR=lambda n: f"executor-{n}")

    def loop(self) -> None:
        self._launch(os.environ["EXECUTOR"])
        threading.Event().wait()

    def _launch(self, executor: str) -> None:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": URL,
                "executor_id": executor,
                "application_version": VERSION,
                "log_level": "ERROR",
            }
        )
        DBOS.launch()
        DBOS.register_queue(QUEUE)


PEER = Dbos()
