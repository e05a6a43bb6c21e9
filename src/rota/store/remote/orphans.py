"""Over the API, what a worker asks whose orchestrator is gone."""

from __future__ import annotations

from rota.store.claims.exchange import Report
from rota.store.remote import processes
from rota.store.remote.carried import parcels, told
from rota.store.remote.client import quoted
from rota.store.remote.orchestrators import ANSWER_WITHIN
from rota.store.remote.port import Port
from rota.store.workers.orphans import Orphans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from rota.store.claims.exchange import Settled
    from rota.store.remote.records import Document
    from rota.store.workers.death import Death
    from rota.store.workers.orphans import Kept

    class _Port(Orphans, Port): ...
else:
    _Port = Port


class RemoteOrphans(_Port):
    """The port for an orphaned worker."""

    def begin(
        self, worker: str, in_hand: Collection[int], outcomes: Sequence[Settled], checkpoints: Sequence[Kept] = ()
    ) -> frozenset[int]:
        self._link.within = ANSWER_WITHIN
        *first, rest = parcels(Report(outcomes, checkpoints=[(value, job, token) for job, token, value in checkpoints]))
        for parcel in first:
            self.report(worker, parcel)
        return frozenset(self._ask(worker, "begin", {"in_hand": sorted(in_hand), **rest})["held"])

    def renew(self, worker: str, claims: Sequence[tuple[int, int]]) -> frozenset[int]:
        body = {"claims": [{"job_id": job, "token": token} for job, token in claims]}
        return frozenset(self._ask(worker, "renew", body)["held"])

    def keep_checkpoint(self, worker: str, kept: Kept) -> None:
        job, token, value = kept
        self._report(worker, Report(checkpoints=[(value, job, token)]))

    def settle(self, worker: str, settled: Settled) -> None:
        self._report(worker, Report([settled]))

    def end(self, death: Death, last: Sequence[Settled] = ()) -> None:
        *first, rest = parcels(Report(last))
        for parcel in first:
            self.report(death.worker_id, parcel)
        self._ask(death.worker_id, "end", {"death": told(death), **rest})
        processes.forget(f"{self._store.database.beside}.workers", death.worker_id)

    def report(self, worker: str, parcel: Document) -> None:
        """What became of what it held, as far as one body takes it."""
        self._ask(worker, "report", parcel)

    def _report(self, worker: str, report: Report) -> None:
        for parcel in parcels(report):
            self.report(worker, parcel)

    def _ask(self, worker: str, what: str, body: dict[str, Any]) -> Any:
        return self._link.post(f"/workers/{quoted(worker)}/orphan/{what}", body)
