"""The looks of one store for ready jobs, which remember where the last one ended while that saves much."""

from __future__ import annotations

from rota.core import ready_scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rota.core.ready_scan import Floor
    from rota.core.times import Instant
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction

_ID, _PRIORITY, _TOOK = 0, 4, -3


class ReadyScans:
    """By queue, where the next look begins, if not at the best. After a slow one the next tells why it was."""

    def __init__(self, floors: dict[str, Floor] | None = None) -> None:
        self._floors = floors or {}
        self._slow: set[str] = set()
        self._at: Instant = 0

    def begin(self, at: Instant) -> None:
        """The looks that follow are made now, by a clock that only goes on."""
        self._at = at

    def floor(self, queue: str) -> Floor | None:
        """Behind which job the next look begins, if not at the best."""
        floor = self._floors.get(queue)
        return floor if floor is not None and self._at < floor.until else None

    def prefetch(self, tx: Transaction, queue: str, most: int) -> None:
        """Ask now for what will be picked soon."""
        statement, words = self._words(queue, most)
        tx.prefetch(statement, **words)

    def pick(self, tx: Transaction, queue: str, most: int) -> list[Row]:
        """The best ready jobs of a queue, held for the caller."""
        statement, words = self._words(queue, most)
        return tx.execute(statement, **words)

    def took(self, queue: str, rows: Sequence[Row]) -> None:
        """Of those just picked, these were taken, in order."""
        took = rows[0][_TOOK] if rows else 0
        if took < ready_scan.SLOW and queue not in self._floors and queue not in self._slow:
            return
        floor, taken = self.floor(queue), [(row[_PRIORITY], row[_ID]) for row in rows]
        if floor is not None:
            self._floors[queue] = floor.after(taken)
        elif queue not in self._slow:
            self._slow.add(queue)
        else:
            floor = ready_scan.floor_after_whole(self._floors.pop(queue, None), taken, took, self._at)
            if floor is not None:
                self._floors[queue] = floor
            else:
                self._slow.discard(queue)

    def _words(self, queue: str, most: int) -> tuple[str, dict[str, Any]]:
        floor = self.floor(queue)
        if floor is None:
            return "claim.pick_counted" if queue in self._slow else "claim.pick", {"queue": queue, "most": most}
        behind = {"priority": floor.priority, "id": floor.id, "newest": floor.newest}
        return "claim.pick_behind", {"queue": queue, "most": most, **behind}
