"""The counts of the metrics, kept in the store so that all processes agree and pruning takes nothing away.

Each change that ends claims counts them with its other counters (`Transaction.ran`): so a source's job counts as well,
whose row is gone when it is done, and a look costs a few hundred rows, however many jobs there were. Only deaths, which
are few, are counted when the metrics are read.
"""

from __future__ import annotations

from rota.core.errors import RotaError, Stale
from rota.core.record import Record
from rota.core.times import SECOND
from rota.store.engine.rows import scalar
from rota.store.engine.transaction import retry_conflicts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate, ParamSpec, Protocol, TypeVar

    from rota.core.times import Duration, Instant
    from rota.store.engine.rows import Row
    from rota.store.store import Store

    class Port(Protocol):
        """What has a store."""

        _store: Store

    Self = TypeVar("Self", bound=Port)
    P = ParamSpec("P")
    R = TypeVar("R")

DEATH, STALE = "death", "stale"
_SETTLED = SECOND  # a death younger than this may be about to commit
_WINDOW, _LAST_RUNS = 2000, 100


class MetricCount(Record):
    """One kept count: how many, and what they add up to in microseconds."""

    name: str
    queue: str
    label: str
    bucket: int
    n: int
    total: int


class Metrics:
    """The port for metrics."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def counted(self) -> list[MetricCount]:
        """Return all counts, brought up to date."""
        self._count_deaths()
        return [MetricCount(*row) for row in self._store.database.execute("metric.all", {})]

    def claims(self) -> int:
        """Return how many claims were ever made: each drew a token."""
        return int(scalar(self._store.database.execute("number.last", {"name": "token"})))

    def took(self) -> dict[str, tuple[int, Duration]]:
        """Return by queue how many of the last runs succeeded, and how long they took together."""
        params = {"window": _WINDOW, "most": _LAST_RUNS}
        return {queue: (n, total) for queue, n, total in self._store.database.execute("metric.took", params)}

    def _count_deaths(self) -> None:
        database = self._store.database
        with database.read():
            counted_until = scalar(database.execute("metric.mark", {}))
            until = self._store.now() - _SETTLED
            deaths = database.execute("metric.deaths", {"after": counted_until, "until": until})
        if deaths:
            counts: list[Row] = [(DEATH, "", reason, 0, n, 0) for reason, n, _last_at in deaths]
            self._write(counted_until, max(last_at for _reason, _n, last_at in deaths), counts)

    @retry_conflicts
    def _write(self, old: Instant, new: Instant, counts: list[Row]) -> None:
        """Keep counts, unless another transaction has counted the same meanwhile."""
        with self._store.write() as tx:
            if tx.execute("metric.advance", died_until=new, old_died=old):
                tx.many("metric.add", counts)


def count_stale(change: Callable[Concatenate[Self, P], R]) -> Callable[Concatenate[Self, P], R]:
    """Decorate a method that only the holder of a claim may call: a refusal as `Stale` is counted.

    It is counted afterwards, in a transaction of its own, so that counting never changes the reply.
    """

    def make(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return change(self, *args, **kwargs)
        except Stale:
            count_refusals(self._store)
            raise

    make.__name__, make.__doc__ = change.__name__, change.__doc__
    return make


def count_refusals(store: Store, times: int = 1) -> None:
    """Count refusals if the store can be written; never in a caller's own transaction."""
    if store.database.is_borrowed:
        return
    try:
        with store.write() as tx:
            tx.many("metric.add", [(STALE, "", "", 0, times, 0)])
    except RotaError:
        # The caller gets the refusal, not the error of counting it.
        pass
