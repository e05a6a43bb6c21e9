"""The slot: the lasting place that a worker fills, how often it is restarted, and when it is given up."""

from __future__ import annotations

from rota.core.record import Record
from rota.core.times import MINUTE, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.death import Charge
    from rota.core.state_machine import Moves
    from rota.core.times import Duration, Instant

EMPTY, STARTING, UP, BACKOFF, STOPPING, FAILED = "empty", "starting", "up", "backoff", "stopping", "failed"
STATES = (EMPTY, STARTING, UP, BACKOFF, STOPPING, FAILED)
OCCUPIED = (STARTING, UP, STOPPING)  # a worker is in it

MAKE, FILL, HEALTHY, STOP, GONE, DIE, RESET = "make", "fill", "healthy", "stop", "gone", "die", "reset"
LOAD, ADOPT, TAKE_OVER, REFUSE, LEAVE = "load", "adopt", "take over", "refuse", "leave"
RESTART, GIVE_UP = "restart", "give up"
# One table for the slot's row and for its orchestrator's copy of it. Only the copy is loaded from the row when the
# orchestrator starts, adopts an orphan, and waits in `backoff` until a death is written down: then it restarts or is
# given up. Only the row is taken over from a killed orchestrator, and emptied when its orchestrator leaves.
MOVES: Moves = {
    (None, MAKE): frozenset({EMPTY}),
    (EMPTY, LOAD): frozenset({FAILED}),
    (EMPTY, ADOPT): frozenset({UP}),
    (EMPTY, FILL): frozenset({STARTING}),
    (BACKOFF, FILL): frozenset({STARTING}),
    **{(state, TAKE_OVER): frozenset({STARTING}) for state in OCCUPIED},
    **{(state, REFUSE): frozenset({BACKOFF, EMPTY}) for state in (EMPTY, BACKOFF)},
    **{(state, REFUSE): frozenset({EMPTY}) for state in OCCUPIED},
    (STARTING, HEALTHY): frozenset({UP}),
    **{(state, STOP): frozenset({STOPPING}) for state in OCCUPIED},
    **{(state, GONE): frozenset({EMPTY}) for state in OCCUPIED},
    **{(state, DIE): frozenset({BACKOFF, EMPTY, FAILED}) for state in OCCUPIED},
    (BACKOFF, RESTART): frozenset({BACKOFF, EMPTY}),
    (STOPPING, RESTART): frozenset({EMPTY}),
    **{(state, GIVE_UP): frozenset({FAILED}) for state in (BACKOFF, STOPPING)},
    **{(state, LEAVE): frozenset({EMPTY}) for state in (*OCCUPIED, EMPTY, BACKOFF)},
    **{(state, RESET): frozenset({EMPTY}) for state in (FAILED, BACKOFF)},
}

MOST_UNSTARTED = 5
HTTP = "-"  # what the slot of the HTTP API has for a queue: no queue can be called so, and no job comes from it


def slot_name(queue: str, n: int) -> str:
    return f"http:{n}" if queue == HTTP else f"worker:{queue}:{n}"


class Restart(Record):
    """Start a new worker after this long."""

    after: Duration


class GiveUp(Record):
    """Start no more until a person resets the slot."""

    reason: str


class RestartPolicy(Record):
    """Backoff doubles with each restart in a sliding window; two limits end it."""

    window: Duration = 5 * MINUTE
    most_in_window: int = 5
    most_in_lifetime: int = 20
    longest_backoff: Duration = 60 * SECOND
    first_backoff: Duration = SECOND

    def decide(self, restarts: Sequence[Instant], lifetime: int, now: Instant) -> Restart | GiveUp:
        """What follows a death at `now`, asked before anything is counted. `restarts` are the times of earlier ones."""
        recent = len(self.within(restarts, now))
        if lifetime >= self.most_in_lifetime:
            return GiveUp(f"restarted {lifetime} times in all, at most {self.most_in_lifetime} are allowed")
        if recent >= self.most_in_window:
            return GiveUp(f"restarted {recent} times within {self.window // SECOND} s")
        return Restart(min(self.first_backoff << recent, self.longest_backoff))

    def within(self, restarts: Sequence[Instant], now: Instant) -> list[Instant]:
        """Those that still count."""
        return [at for at in restarts if now - at < self.window]


class History(Record):
    """What persists of a slot: when it was restarted, how often in all, and whether it was given up.

    `unstarted` counts the starts in a row that ran out of time before the worker was ready.
    """

    restarts: tuple[Instant, ...] = ()
    lifetime: int = 0
    failed_at: Instant | None = None
    failure_reason: str | None = None
    unstarted: int = 0

    def after_death(self, policy: RestartPolicy, charge: Charge, now: Instant) -> tuple[History, Restart | GiveUp]:
        """Decide what follows a death, and return it with the history that records it."""
        if not charge.counts:
            return self, Restart(policy.first_backoff if charge.backs_off else 0)
        unstarted = self.unstarted + 1 if charge.unstarted else 0
        if unstarted >= MOST_UNSTARTED:
            decision: Restart | GiveUp = GiveUp(f"was not ready in time, {unstarted} starts in a row")
        else:
            decision = policy.decide(self.restarts, self.lifetime, now)
        match decision:
            case Restart():
                recent = (*policy.within(self.restarts, now), now)
                return History(recent, self.lifetime + 1, unstarted=unstarted), decision
            case GiveUp(reason):
                return self.replace(failed_at=now, failure_reason=reason, unstarted=unstarted), decision
