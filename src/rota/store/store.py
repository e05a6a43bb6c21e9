"""The store: everything durable, in the words of the domain. Each noun is a small port of its own."""

from __future__ import annotations

import os

from rota.core.errors import NotAllowed, SchemaMismatch
from rota.core.ids import worker_id
from rota.store.claims.ready_scan import ReadyScans
from rota.store.engine.transaction import Transaction, retry_conflicts
from rota.store.maintenance import tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.access import AccessToken
    from rota.core.times import Duration, Instant
    from rota.settings import Settings
    from rota.store.claims.manual import Claims
    from rota.store.engine.database import Database
    from rota.store.events import Events
    from rota.store.jobs.jobs import Jobs
    from rota.store.maintenance.prune import History
    from rota.store.maintenance.reconcile import Reconciled
    from rota.store.maintenance.schedules import Schedules
    from rota.store.metrics import Metrics
    from rota.store.queues import Queues
    from rota.store.remote.client import Link
    from rota.store.sources import Sources
    from rota.store.tokens import Tokens
    from rota.store.workers.orchestrators import Orchestrators
    from rota.store.workers.orphans import Orphans
    from rota.store.workers.registration import Workers
    from rota.store.workers.slots import Slots


class Store:
    """One database opened by one program; `actor` is the name that its events have.

    `access`: the access token of the HTTP caller that the next call is made for; None: the opener of the database.
    `outdated`: the schema is newer than this code, which may renew, settle and release what it holds and begin nothing.
    `link` is the HTTP API behind it, where that is what was opened.
    """

    link: Link | None = None

    def __init__(
        self,
        database: Database,
        settings: Settings,
        actor: str,
        outdated: bool = False,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.database = database
        self.settings = settings
        self.actor = actor
        self.access: AccessToken | None = None
        self._outdated = outdated
        self.entropy = entropy
        # A hint: the queues that were open and without limits when last read (decision 25).
        self.plain_queues: frozenset[str] = frozenset()
        # The queue and kind behind which the next scan for unknown kinds begins.
        self.unknown_from = ("", "")
        # A hint: the queue without a pool, if there was only one (decision 25).
        self.spare_queue = ""
        self.ready_scans = ReadyScans()

    @property
    def jobs(self) -> Jobs:
        from rota.store.jobs.jobs import Jobs

        return Jobs(self)

    @property
    def claims(self) -> Claims:
        from rota.store.claims.manual import Claims

        return Claims(self)

    @property
    def workers(self) -> Workers:
        from rota.store.workers.registration import Workers

        return Workers(self)

    @property
    def queues(self) -> Queues:
        from rota.store.queues import Queues

        return Queues(self)

    @property
    def orchestrators(self) -> Orchestrators:
        from rota.store.workers.orchestrators import Orchestrators

        return Orchestrators(self)

    @property
    def orphans(self) -> Orphans:
        from rota.store.workers.orphans import Orphans

        return Orphans(self)

    @property
    def slots(self) -> Slots:
        from rota.store.workers.slots import Slots

        return Slots(self)

    @property
    def sources(self) -> Sources:
        from rota.store.sources import Sources

        return Sources(self)

    @property
    def schedules(self) -> Schedules:
        from rota.store.maintenance.schedules import Schedules

        return Schedules(self)

    @property
    def events(self) -> Events:
        from rota.store.events import Events

        return Events(self)

    @property
    def tokens(self) -> Tokens:
        from rota.store.tokens import Tokens

        return Tokens(self)

    @property
    def metrics(self) -> Metrics:
        from rota.store.metrics import Metrics

        return Metrics(self)

    @property
    def history(self) -> History:
        from rota.store.maintenance.prune import History

        return History(self)

    def reconcile(self, plan: bool = False) -> Reconciled:
        """Repair the store: see `rota.store.maintenance.reconcile`."""
        from rota.store.maintenance.reconcile import reconcile

        return reconcile(self, plan)

    def write(self, actor: str | None = None, exclusive: bool = False) -> Transaction:
        """Begin a change: its facts become one event in the same transaction, and others are woken after the commit.

        `exclusive`: while no one else writes, for what is rare and touches much.
        """
        return Transaction(self.database, actor or self.actor, exclusive, self.access)

    def begin(self, exclusive: bool = False) -> Transaction:
        """Begin a change that starts something new, which outdated code may not."""
        self.check_not_outdated()
        return self.write(exclusive=exclusive)

    def check_not_outdated(self) -> None:
        if self._outdated:
            raise SchemaMismatch(
                "this rota is older than its database: it may finish what it holds; upgrade it to begin"
            )

    @retry_conflicts
    def tick(self) -> None:
        """Run the maintenance tick if anything is due; writes nothing otherwise."""
        try:
            if tick.anything_due(self):
                with self.write() as tx:
                    tick.run(self, tx)
        except NotAllowed:
            # A role that may only read leaves the tick to others.
            pass

    def next_due(self, queue: str | None = None) -> Duration | None:
        """Return after how long something is due or a rate allows a claim from `queue` (None: any); None for never.

        A moment of a rate that has passed since the caller tried counts as now, if there is a job to claim.
        """
        with self.database.read():
            rated = [each for each in self.queues.open_ones(queue) if each.rate is not None]
            waits = [each.rate_next_at - self.now() for each in rated]
            if any(wait <= 0 and self.jobs.has_claimable(each) for wait, each in zip(waits, rated, strict=True)):
                return 0
            due = tick.next_due(self)
        return min([wait for wait in waits if wait > 0] + ([] if due is None else [due]), default=None)

    def now(self) -> Instant:
        return self.database.now()

    def chance(self) -> float:
        """Return a random number from 0 up to 1, for jitter."""
        return int.from_bytes(self.entropy(6), "big") / (1 << 48)

    def new_worker_id(self) -> str:
        return worker_id(self.entropy(8))

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
