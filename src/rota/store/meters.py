"""What the metrics have counted, kept in the store so that every process tells the same and pruning takes nothing away.

Nothing is counted while jobs run. Whoever asks counts what ended since: runs by their tokens, which only grow, so that
a claim that was alive at the last count is all that has to be remembered.
"""

from __future__ import annotations

import json

from rota.core.record import Record
from rota.core.times import SECOND
from rota.store.again import again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.times import Duration
    from rota.store.rows import Row
    from rota.store.store import Store

RUN, PICKUP, DEATH = "run", "pickup", "death"
_STRETCH = 100_000
_SETTLED = SECOND  # a death younger than this may be about to commit
_WINDOW, _LAST_RUNS = 2000, 100


class Meter(Record):
    """One kept count: how many, and what they add up to in microseconds."""

    name: str
    queue: str
    label: str
    bucket: int
    n: int
    total: int


class Mark(Record):
    """Up to where was counted, and the claims below that were alive then."""

    token: int
    open_tokens: str
    died_until: int


class Meters:
    """The port for metrics."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def counted(self) -> list[Meter]:
        """All counts, brought up to now."""
        while self._count():
            pass
        return [Meter(*row) for row in self._store.database.execute("meter.all", {})]

    def claims(self) -> int:
        """How many claims were ever made: each drew a token."""
        ((drawn,),) = self._store.database.execute("number.last", {"name": "token"})
        return int(drawn)

    def took(self) -> dict[str, tuple[int, Duration]]:
        """By queue, how many of the last runs that ended well there were, and how long they took together."""
        params = {"window": _WINDOW, "most": _LAST_RUNS}
        return {queue: (n, total) for queue, n, total in self._store.database.execute("meter.took", params)}

    def _count(self) -> bool:
        """Count one stretch; whether there may be more."""
        database = self._store.database
        with database.read():
            mark = Mark(*database.execute("meter.mark", {})[0])
            drawn = self.claims()
            until = min(drawn, mark.token + _STRETCH)
            live = {token for (token,) in database.execute("meter.live", {})}
            was_open = json.loads(mark.open_tokens)
            found = self._ended(mark.token, until)
            for token in was_open:
                if token not in live:
                    found += self._ended(token - 1, token)
            deaths = database.execute("meter.deaths", {"after": mark.died_until, "until": self._store.now() - _SETTLED})
        found += [(DEATH, "", reason, 0, n, 0) for reason, n, _ in deaths]
        still_open = [token for token in was_open if token in live]
        still_open += sorted(token for token in live if mark.token < token <= until)
        moved = Mark(until, json.dumps(still_open), max((at for *_, at in deaths), default=mark.died_until))
        if moved != mark:
            self._write(mark, moved, found)
        return until < drawn

    def _ended(self, after: int, until: int) -> list[Row]:
        params = {"after": after, "until": until}
        runs = self._store.database.execute("meter.ended", params)
        picked_up = self._store.database.execute("meter.picked_up", params)
        return [(RUN, *row) for row in runs] + [(PICKUP, row[0], "", *row[1:]) for row in picked_up]

    @again
    def _write(self, old: Mark, new: Mark, found: list[Row]) -> None:
        """Keep what was counted, unless somebody else has counted it meanwhile."""
        marks = {"old_token": old.token, "old_open": old.open_tokens, "old_died": old.died_until}
        with self._store.write() as tx:
            if tx.execute(
                "meter.advance", token=new.token, open_tokens=new.open_tokens, died_until=new.died_until, **marks
            ):
                tx.many("meter.add", found)
