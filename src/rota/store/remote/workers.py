"""Workers over the API."""

from __future__ import annotations

import os

from rota.core.errors import NotFound
from rota.store.open import implicit_id
from rota.store.remote import records
from rota.store.remote.client import Port, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.job import Job
    from rota.core.times import Duration
    from rota.core.worker import Worker
    from rota.store.remote.records import Document
    from rota.store.workers.registration import Certificate, Workers

    class _Port(Workers, Port): ...
else:
    _Port = Port


class RemoteWorkers(_Port):
    """The port for workers. Heartbeats are repeated for a while if the API is away (decision 20)."""

    def register(
        self,
        name: str,
        every: Duration | None = None,
        pid: int | None = None,
        queue: str | None = None,
        elsewhere: str | None = None,
    ) -> Worker:
        interval = self._store.settings.heartbeat_interval if every is None else every
        hostname = elsewhere or os.uname().nodename
        body = {"name": name, "every": records.seconds(interval), "queue": queue, "pid": pid, "hostname": hostname}
        return self._worker(self._link.post("/workers", body, details=True))

    def heartbeat(self, id: str, metrics: Mapping[str, object] | None = None) -> str:
        return str(self._link.insist("POST", f"/workers/{quoted(id)}/heartbeat", dict(metrics or {}))["advice"])

    def deregister(self, id: str) -> int:
        return int(self._link.insist("DELETE", f"/workers/{quoted(id)}")["released"])

    def stop(self, id: str) -> Worker:
        return self._worker(self._link.post(f"/workers/{quoted(id)}/stop", details=True))

    def get(self, id: str) -> Worker:
        return self._worker(self._link.get(f"/workers/{quoted(id)}", details=True))

    def held(self, id: str) -> list[Job]:
        return [records.job(job) for job in self._link.get(f"/workers/{quoted(id)}/jobs", details=True)]

    def certificate(self, id: str) -> Certificate | None:
        try:
            document = self._link.get(f"/workers/{quoted(id)}/certificate")
        except NotFound:
            return None
        return _certificate(document)

    def deaths(
        self, limit: int = 20, slot: str | None = None, worker: str | None = None
    ) -> list[tuple[str, Certificate]]:
        deaths = self._link.get("/deaths", limit=limit, slot=slot, worker=worker)
        return [(death["worker_id"], _certificate(death)) for death in deaths]

    def shown(self, worker: Worker) -> str:
        return self._remote.shown[worker.id]

    def implicit_id(self) -> str:
        return implicit_id(self._store.actor)

    def list(self, gone_too: bool = False) -> list[Worker]:
        return [self._worker(worker) for worker in self._link.get("/workers", all=gone_too, details=True)]

    def _worker(self, document: Document) -> Worker:
        """Return a worker, and remember the status that the API shows for it."""
        self._remote.shown[document["id"]] = document["status"]
        return records.worker(document)


@records.fitting
def _certificate(document: Document) -> Certificate:
    from rota.store.workers.registration import Certificate

    # Without its last frame and output, a certificate is shown without the fields that only /deaths has.
    left_out = dict.fromkeys(("slot", "usage_json", "last_frame", "stderr_tail")) if "slot" not in document else {}
    return records.from_document(Certificate, document, job=document["job_id"], **left_out)
