"""Where to look for the ready jobs of a queue: from its best, or for a while behind those taken last.

A database that must keep what ended (a backup reads, a report is long) walks past all of it to find the best. The rule
keeps that to a twentieth of the time: in between, what became ready again among those walked past is not seen.
"""

from __future__ import annotations

from rota.core.record import Record
from rota.core.times import MILLISECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.times import Duration, Instant

SLOW: Duration = 20 * MILLISECOND
WORTH = 20


class Floor(Record):
    """Until then, look behind this job, and for better ones among those newer than any taken.

    To look from the best took `cost`.
    """

    priority: int
    id: int
    newest: int
    cost: Duration
    until: Instant

    def after(self, taken: Sequence[tuple[int, int]]) -> Floor:
        """The same when these were taken, each `(priority, id)`: a better one does not raise it."""
        priority, id = max(taken, key=_order, default=(self.priority, self.id))
        newest = max((self.newest, *(id for _, id in taken)))
        if _order((priority, id)) <= _order((self.priority, self.id)):
            return self.replace(newest=newest)
        return self.replace(priority=priority, id=id, newest=newest)


def floor_after_whole(old: Floor | None, taken: Sequence[tuple[int, int]], took: Duration, at: Instant) -> Floor | None:
    """What follows a look from the best. Where nothing was found, nobody knows how long it took: it counts half."""
    if taken:
        return Floor(*taken[-1], max(id for _, id in taken), took, at + WORTH * took) if took >= SLOW else None
    if old is None or old.cost // 2 < SLOW:
        return None
    return old.replace(cost=old.cost // 2, until=at + WORTH * (old.cost // 2))


def _order(job: tuple[int, int]) -> tuple[int, int]:
    priority, id = job
    return -priority, id
