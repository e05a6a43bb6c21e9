"""The slot: the lasting place that a worker fills, and what a death there means."""

from __future__ import annotations

from rota.core.record import Record
from rota.core.restart import GiveUp, Restart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.death import Charge
    from rota.core.restart import RestartPolicy
    from rota.core.state_machine import Moves
    from rota.core.times import Instant

EMPTY, STARTING, UP, BACKOFF, STOPPING, FAILED = "empty", "starting", "up", "backoff", "stopping", "failed"
STATES = (EMPTY, STARTING, UP, BACKOFF, STOPPING, FAILED)
FILL, HEALTHY, STOP, GONE, DIE, RESET, CANCEL = "fill", "healthy", "stop", "gone", "die", "reset", "cancel"
MOVES: Moves = {
    (None, "make"): frozenset({EMPTY}),
    (EMPTY, FILL): frozenset({STARTING}),
    (BACKOFF, FILL): frozenset({STARTING}),
    (STARTING, HEALTHY): frozenset({UP}),
    (STARTING, STOP): frozenset({STOPPING}),
    (UP, STOP): frozenset({STOPPING}),
    (STOPPING, GONE): frozenset({EMPTY}),
    (STOPPING, DIE): frozenset({BACKOFF, EMPTY, FAILED}),
    (STARTING, DIE): frozenset({BACKOFF, EMPTY, FAILED}),
    (UP, DIE): frozenset({BACKOFF, EMPTY, FAILED}),
    (BACKOFF, CANCEL): frozenset({EMPTY}),
    (FAILED, RESET): frozenset({EMPTY}),
    (BACKOFF, RESET): frozenset({EMPTY}),
}

MOST_UNSTARTED = 5
HTTP = "-"  # what the slot of the HTTP API has for a queue: no queue can be called so, and no job comes from it


def slot_name(queue: str, n: int) -> str:
    return f"http:{n}" if queue == HTTP else f"worker:{queue}:{n}"


class History(Record):
    """What persists of a slot: when it was restarted, how often in all, and whether it was given up.

    `unstarted` counts the starts in a row that ran out of time before the worker was ready.
    """

    restarts: tuple[Instant, ...] = ()
    lifetime: int = 0
    failed_at: Instant | None = None
    failure_reason: str | None = None
    unstarted: int = 0

    def after_death(self, policy: RestartPolicy, charge: Charge, now: Instant) -> tuple[History, Instant | None]:
        """The history after a death, and when to start again; None when the slot is given up."""
        if not charge.counts:
            return self, now + (policy.first_backoff if charge.backs_off else 0)
        unstarted = self.unstarted + 1 if charge.unstarted else 0
        if unstarted >= MOST_UNSTARTED:
            decided: Restart | GiveUp = GiveUp(f"was not ready in time, {unstarted} starts in a row")
        else:
            decided = policy.decide(self.restarts, self.lifetime, now)
        match decided:
            case Restart(after):
                kept = (*policy.within(self.restarts, now), now)
                return History(kept, self.lifetime + 1, unstarted=unstarted), now + after
            case GiveUp(reason):
                return self.replace(failed_at=now, failure_reason=reason, unstarted=unstarted), None
