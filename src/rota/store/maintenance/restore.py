"""What a store must do after it was brought back from a backup: give out no number that the lost time has given out."""

from __future__ import annotations

from rota.core.times import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.store import Store

LEAST = 1_000_000
FASTEST = 100_000  # claims a second, more than any store can make


def raise_numbers(store: Store) -> int:
    """Leave out as many job ids and tokens as can have been drawn since the last event that is known; how many."""
    newest = store.events.newest(limit=1)
    with store.write(exclusive=True) as tx:
        since = tx.now - newest[-1].at if newest else 0
        left_out = max(LEAST, FASTEST * since // SECOND)
        for name in ("job", "token"):
            tx.execute("number.leave_out", name=name, count=left_out)
        tx.changed("store", "restore", "numbers", left_out=left_out, by=tx.actor)
    return left_out
