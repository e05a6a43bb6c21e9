"""The store over an HTTP API, the third behind the ports, for hosts that cannot reach the database (decision 20)."""

from __future__ import annotations

import os

from rota.store.open import implicit_name
from rota.store.remote import records
from rota.store.remote.client import Link, not_offered
from rota.store.remote.http_connection import address_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from rota.core.times import Instant
    from rota.settings import Settings
    from rota.store.engine.database import Database, Listener
    from rota.store.maintenance.reconcile import Reconciled
    from rota.store.remote.claims import RemoteClaims
    from rota.store.remote.jobs import RemoteJobs
    from rota.store.remote.orchestrators import RemoteOrchestrators, RemoteOrphans
    from rota.store.remote.workers import RemoteWorkers
    from rota.store.store import Store

    class _Store(Store): ...
else:
    _Store = object


class RemoteStore(_Store):
    """One API used by one program. The token names the actor of its changes; `actor` is who claims by hand here."""

    link: Link

    def __init__(self, url: str, settings: Settings) -> None:
        self.link = Link(address_of(url, os.environ.get("ROTA_TOKEN") or None))
        self.settings = settings
        self.actor = implicit_name()
        self.shown: dict[str, str] = {}
        self.orchestrator = 0  # the id of the orchestrator that this program is
        self.database: Database = RemoteDatabase(url, self)

    @property
    def jobs(self) -> RemoteJobs:
        from rota.store.remote.jobs import RemoteJobs

        return RemoteJobs(self)

    @property
    def claims(self) -> RemoteClaims:
        from rota.store.remote.claims import RemoteClaims

        return RemoteClaims(self)

    @property
    def workers(self) -> RemoteWorkers:
        from rota.store.remote.workers import RemoteWorkers

        return RemoteWorkers(self)

    @property
    def orchestrators(self) -> RemoteOrchestrators:
        from rota.store.remote.orchestrators import RemoteOrchestrators

        return RemoteOrchestrators(self)

    @property
    def orphans(self) -> RemoteOrphans:
        from rota.store.remote.orchestrators import RemoteOrphans

        return RemoteOrphans(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("queues", "slots", "sources", "schedules", "events", "history", "tokens"):
            from rota.store.remote import resources

            return getattr(resources, f"Remote{name.capitalize()}")(self)
        raise not_offered(name, self.link.address.shown)

    def reconcile(self, plan: bool = False) -> Reconciled:
        from rota.store.maintenance.reconcile import Reconciled

        return Reconciled(**self.link.post("/orchestrator/reconcile", {"plan": plan}))

    def tick(self) -> None:
        # This request runs due maintenance before it reads.
        self.link.get("/jobs/ready", limit=1)

    def next_due(self, queue: str | None = None) -> None:
        return None

    def now(self) -> Instant:
        return records.at(self.link.get("/clock")["now"]) or 0

    def close(self) -> None:
        self.link.close()

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteDatabase:
    """What takes the place of the database: its name, its clock and its notifications."""

    def __init__(self, url: str, store: RemoteStore) -> None:
        self.url = url
        self.path = store.link.address.shown
        self._store = store

    def now(self) -> Instant:
        return self._store.now()

    def wall(self) -> Instant:
        return records.at(self._store.link.get("/clock")["wall"]) or 0

    @property
    def beside(self) -> str:
        from rota.process.host import files_of

        return files_of(self.path, "http")

    @property
    def runs(self) -> str:
        return f"{self.beside}.runs"

    def read(self) -> AbstractContextManager[None]:
        """Do nothing: each request has a snapshot of its own."""
        from contextlib import nullcontext

        return nullcontext()

    def listen(self, events: bool = False, behind_lock: bool = False) -> Listener:
        if self._store.orchestrator and not events:
            from rota.store.remote.sse import OrchestratorListener

            return OrchestratorListener(self._store.link, lambda: f"/orchestrators/{self._store.orchestrator}/bell")
        from rota.store.remote.sse import FeedListener

        return FeedListener(self._store.link, events)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise not_offered("this", self.path)
