"""The orchestrator as the store knows it: its states, and when its lease has truly lapsed."""

from __future__ import annotations

from rota.core.record import Record
from rota.core.times import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.state_machine import Moves
    from rota.core.times import Duration, Instant

STOPPED, STARTING, RUNNING, STOPPING = "stopped", "starting", "running", "stopping"
STATES = (STOPPED, STARTING, RUNNING, STOPPING)
LIVE = (STARTING, RUNNING, STOPPING)
START, UP, STOP, END, LAPSE, TAKE_OVER = "start", "up", "stop", "end", "lapse", "take over"
MOVES: Moves = {
    (None, START): frozenset({STARTING}),
    (STARTING, UP): frozenset({RUNNING}),
    **{(state, STOP): frozenset({STOPPING}) for state in (STARTING, RUNNING)},
    **{(state, END): frozenset({STOPPED}) for state in LIVE},
    **{(state, LAPSE): frozenset({STOPPED}) for state in LIVE},
    **{(state, TAKE_OVER): frozenset({STOPPED}) for state in LIVE},
}
REPORTED = {RUNNING: UP, STOPPING: STOP}  # the verb behind each state that an orchestrator reports of itself

LEASE: Duration = 15 * SECOND
RENEW_EVERY: Duration = 4 * SECOND
TELL_AFTER: Duration = 10 * SECOND
END_AFTER: Duration = 12 * SECOND
DRAIN = "drain"
LATE, KILLED = "late", "killed"
HELD, LOST, ENDED = "held", "lost", "ended"


class Pulse(Record):
    """When some orchestrator last renewed, and from when a grace counts because the store itself was away."""

    at: Instant
    graced: Instant
    grace_from: Instant

    def needs_grace(self, now: Instant, silence: Duration = LEASE // 2) -> bool:
        """No orchestrator renewed for half a lease: the store was away, or all of them. Given once per silence."""
        return now - self.at > silence and self.graced != self.at


def is_lapsed(lease_expires_at: Instant, grace_from: Instant, now: Instant) -> bool:
    """Whether a lease has run out, not counting the time in which the store itself was away."""
    return now >= max(lease_expires_at, grace_from + LEASE)


def shown(status: str, lease_expires_at: Instant | None, now: Instant) -> str:
    """Return the state that people see: `late` once a renewal was missed."""
    if lease_expires_at is None or now - (lease_expires_at - LEASE) <= 2 * RENEW_EVERY:
        return status
    return LATE


def standing(renewed_at: Instant, now: Instant) -> str:
    """Judge the claims under a lease by its age: held; lost, so that handlers are warned; ended for fenced queues.

    `renewed_at` is when the last good renewal began, on a clock that also counts while the host sleeps.
    """
    age = now - renewed_at
    return HELD if age < TELL_AFTER else LOST if age < END_AFTER else ENDED
