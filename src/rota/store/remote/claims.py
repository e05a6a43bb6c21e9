"""Claims by hand over the API."""

from __future__ import annotations

from rota.core import claim as claims
from rota.core import job as jobs
from rota.core.claim import Done
from rota.core.errors import NothingReady, Stale
from rota.core.ids import MOST
from rota.core.jsontext import Raw, decode
from rota.store.remote import records
from rota.store.remote.client import Port, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.core.claim import Claim, Outcome, Run
    from rota.core.times import Duration
    from rota.store.claims.manual import Claims

    class _Port(Claims, Port): ...
else:
    _Port = Port


class RemoteClaims(_Port):
    """The port for claims by hand. Renewals and outcomes are repeated for a while if the API is away (decision 20)."""

    def claim(
        self, job_id: int, worker_id: str | None = None, lease: Duration | None = None, person: str | None = None
    ) -> Claim:
        return records.claim(self._link.post(f"/jobs/{job_id}/claim", self._holder(worker_id, lease, person)))

    def take(
        self,
        worker_id: str | None = None,
        queue: str | None = None,
        lease: Duration | None = None,
        person: str | None = None,
    ) -> Claim:
        taken = self._link.post("/claims", {**self._holder(worker_id, lease, person), "queue": queue})
        if not taken:
            raise NothingReady("nothing is ready" + (f" in queue {queue}" if queue else ""))
        return records.claim(taken[0]["claim"])

    def renew(self, claim: Claim, lease: Duration | None = None) -> Claim:
        return records.claim(self._change(claim, "renew", {"lease": records.seconds(lease)}))

    def checkpoint(self, claim: Claim, value: Any) -> None:
        from rota.store.jobs.payload import encode

        self._change(claim, "checkpoint", {"value": Raw(encode(value, "checkpoint") or "null")})

    def capture(self, claim: Claim, transcript_path: str | None, stderr_path: str | None) -> None:
        self._change(claim, "capture", {"transcript_path": transcript_path, "stderr_path": stderr_path})

    def release(self, claim: Claim, note: str | None = None) -> None:
        self._change(claim, "release", {"note": note})

    def settle(self, claim: Claim, outcome: Outcome) -> bool:
        """Settle the claim. The API does not say whether it was settled before, but another's result differs."""
        job = self._change(claim, "settle", _settle_body(outcome))
        return not isinstance(outcome, Done) or outcome.result is None or job.get("result") == decode(outcome.result)

    def held(self, job_id: int, worker_id: str | None = None, token: int | None = None) -> Claim:
        job = self._store.jobs.get(job_id)
        worker = worker_id or (None if token else self._store.workers.implicit_id())
        if job.status == jobs.ACTIVE and (token is None or job.token == token) and worker in (None, job.worker_id):
            return records.claim_of(job)
        raise Stale(claims.stale_message(job, worker or f"token {token}"))

    def is_settled_by(self, job_id: int, worker_id: str | None) -> bool:
        job, worker = self._store.jobs.get(job_id), worker_id or self._store.workers.implicit_id()
        last = [run for run in self.runs(job_id) if run.worker_id == worker][-1:]
        own = (claims.COMPLETED, claims.FAILED, claims.RELEASED)
        return bool(last) and last[0].status in own and last[0].token == job.token

    def runs(self, job_id: int, most: int = MOST) -> list[Run]:
        return [records.run(run) for run in self._link.get(f"/jobs/{job_id}/runs")][-most:]

    def run(self, id: str) -> Run:
        return records.run(self._link.get(f"/runs/{quoted(id)}"))

    def _holder(self, worker: str | None, lease: Duration | None, person: str | None) -> dict[str, Any]:
        """Return the fields of a request that say for whom a claim is made: a worker, or the person here."""
        if worker is None and person is None:
            person = self._store.actor
        lease = self._store.settings.lease if lease is None else lease
        return {"worker_id": worker, "person": person, "lease": records.seconds(lease)}

    def _change(self, claim: Claim, verb: str, body: dict[str, Any]) -> Any:
        return self._link.insist("POST", f"/jobs/{claim.job_id}/claim/{verb}", {"token": claim.token, **body})


def _settle_body(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as people write it to the API: a value as result, seconds, `final`, and no reason."""
    if isinstance(outcome, Done):
        return {"outcome": "done", "result": None if outcome.result is None else Raw(outcome.result)}
    # The codec imports `json`, which the hot verb `done` must not pay for.
    from rota.core.frames import outcomes

    document = outcomes.encode(outcome)
    match document["outcome"]:
        case "failed":
            return {"outcome": "failed", "error": document["error"], "final": not document["again"]}
        case "snoozed":
            return {**document, "delay": records.seconds(document["delay"])}
        case _:
            return {"outcome": "released", "note": document.get("note")}
