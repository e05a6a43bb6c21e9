"""Where the scan for the ready jobs of a queue begins: at the best job, or for a while behind those taken last.

A database that must keep what ended (a backup reads, a report is long) walks past all of it to find the best job. The
rule keeps that to a twentieth of the time: in between, jobs that became ready again among those walked past are missed
(decision 29).
"""

from __future__ import annotations

from collections import namedtuple

from rota.core.record import Record
from rota.core.times import MILLISECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rota.core.times import Duration, Instant
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction

SLOW: Duration = 20 * MILLISECOND
WORTH = 20
# A row of `claim.pick` and its variants. `typing.NamedTuple` is too slow to import for hot verbs (decision 5).
PickedJob = namedtuple(
    "PickedJob",
    "id kind title payload priority attempts max_attempts timeout checkpoint last_token source key trace scheduled_for"
    " took isolated drawn_token",
)


class Floor(Record):
    """Until `until`, scan behind this job, and among jobs newer than any taken.

    The last scan from the best job took `cost`.
    """

    priority: int
    id: int
    newest: int
    cost: Duration
    until: Instant

    def after(self, taken: Sequence[tuple[int, int]]) -> Floor:
        """Return the floor after these jobs, each `(priority, id)`, were taken; a better job does not raise it."""
        priority, id = max(taken, key=_order, default=(self.priority, self.id))
        newest = max((self.newest, *(id for _, id in taken)))
        if _order((priority, id)) <= _order((self.priority, self.id)):
            return self.replace(newest=newest)
        return self.replace(priority=priority, id=id, newest=newest)


def floor_after_whole(old: Floor | None, taken: Sequence[tuple[int, int]], took: Duration, at: Instant) -> Floor | None:
    """Return the floor after a scan from the best job; one that found nothing halves the old cost."""
    if taken:
        return Floor(*taken[-1], max(id for _, id in taken), took, at + WORTH * took) if took >= SLOW else None
    if old is None or old.cost // 2 < SLOW:
        return None
    return old.replace(cost=old.cost // 2, until=at + WORTH * (old.cost // 2))


class ReadyScans:
    """The point where the next scan of each queue begins. After a slow scan the next one measures why it was slow."""

    def __init__(self, floors: dict[str, Floor] | None = None) -> None:
        self._floors = floors or {}
        self._slow: set[str] = set()
        self._at: Instant = 0

    def begin(self, at: Instant) -> None:
        """Set the time of the scans that follow, on a clock that never goes back."""
        self._at = at

    def floor(self, queue: str) -> Floor | None:
        """Return the job behind which the next scan begins; None for the best one."""
        floor = self._floors.get(queue)
        return floor if floor is not None and self._at < floor.until else None

    def prefetch(self, tx: Transaction, queue: str, most: int) -> None:
        """Send the statement of the next `pick` ahead."""
        statement, params = self._statement(queue, most)
        tx.prefetch(statement, **params)

    def pick(self, tx: Transaction, queue: str, most: int) -> list[Row]:
        """Return the best ready jobs of a queue, locked for the caller: rows whose columns `PickedJob` names."""
        statement, params = self._statement(queue, most)
        return tx.execute(statement, **params)

    def took(self, queue: str, picked: Sequence[Row]) -> None:
        """Record which of the jobs just picked were taken, in order."""
        took = PickedJob(*picked[0]).took if picked else 0
        if took < SLOW and queue not in self._floors and queue not in self._slow:
            return
        floor, taken = self.floor(queue), [(job.priority, job.id) for job in map(PickedJob._make, picked)]
        if floor is not None:
            self._floors[queue] = floor.after(taken)
        elif queue not in self._slow:
            self._slow.add(queue)
        else:
            floor = floor_after_whole(self._floors.pop(queue, None), taken, took, self._at)
            if floor is not None:
                self._floors[queue] = floor
            else:
                self._slow.discard(queue)

    def _statement(self, queue: str, most: int) -> tuple[str, dict[str, Any]]:
        floor = self.floor(queue)
        if floor is None:
            return "claim.pick_counted" if queue in self._slow else "claim.pick", {"queue": queue, "most": most}
        behind = {"priority": floor.priority, "id": floor.id, "newest": floor.newest}
        return "claim.pick_behind", {"queue": queue, "most": most, **behind}


def _order(job: tuple[int, int]) -> tuple[int, int]:
    priority, id = job
    return -priority, id
