"""The worker: its states, and whether an external one is dead."""

from __future__ import annotations

from rota.core.death import HEARTBEAT_TIMEOUT
from rota.core.record import Record
from rota.core.times import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.core.state_machine import Moves
    from rota.core.times import Duration, Instant

STARTING, IDLE, BUSY, STOPPING, STOPPED, DEAD = "starting", "idle", "busy", "stopping", "stopped", "dead"
STATES = (STARTING, IDLE, BUSY, STOPPING, STOPPED, DEAD)
LIVE = (STARTING, IDLE, BUSY, STOPPING)
PAUSED, LATE = "paused", "late"
SHOWN = (*STATES, PAUSED, LATE)

REGISTER, READY, HEARTBEAT, CLAIM, SETTLE, STOP, LEAVE, DIE = (
    "register",
    "ready",
    "heartbeat",
    "claim",
    "settle",
    "stop",
    "leave",
    "die",
)
MOVES: Moves = {
    (None, REGISTER): frozenset({STARTING, IDLE}),
    (STARTING, READY): frozenset({IDLE}),
    **{(state, CLAIM): frozenset({BUSY}) for state in (STARTING, IDLE, BUSY)},
    (STOPPING, CLAIM): frozenset({STOPPING}),
    **{(state, SETTLE): frozenset({IDLE, BUSY}) for state in (IDLE, BUSY)},
    **{(state, STOP): frozenset({STOPPING}) for state in (STARTING, IDLE, BUSY)},
    **{(state, LEAVE): frozenset({STOPPED}) for state in LIVE},
    **{(state, DIE): frozenset({DEAD}) for state in LIVE},
    # Only an external worker comes back: it was judged by its silence, or it stands for a person who claims again.
    **{(state, HEARTBEAT): frozenset({IDLE}) for state in (STOPPED, DEAD)},
}

END = "end"  # what is desired of one whose time to finish is over

CONTINUE, PAUSE, REGISTER_AGAIN = "continue", "pause", "register"
ADVICE = (CONTINUE, STOP, PAUSE, REGISTER_AGAIN)

MISSED_HEARTBEATS = 2


class Worker(Record):
    """One process life, as the store knows it. `heartbeat_interval` None: judged by its lease alone."""

    id: str
    name: str
    hostname: str
    pid: int | None
    status: str
    desired: str | None
    orchestrator: int | None
    slot: str | None
    queue: str | None
    version: str | None
    registered_at: Instant
    last_heartbeat_at: Instant
    heartbeat_interval: Duration | None
    heartbeat_count: int
    success_count: int
    error_count: int
    last_error_at: Instant | None
    last_error_message: str | None
    current_job: int | None
    metadata_json: str | None
    concurrency: int = 1

    @property
    def metadata(self) -> dict[str, Any]:
        import json

        return json.loads(self.metadata_json) if self.metadata_json else {}

    def shown(self, now: Instant, paused: bool) -> str:
        """Return the state that people see: `late` after a missed heartbeat, `paused` if idle in a paused queue."""
        beats = self.orchestrator is None and self.status in LIVE
        if beats and self.heartbeat_interval and now >= self.last_heartbeat_at + 3 * self.heartbeat_interval // 2:
            return LATE
        return PAUSED if paused and self.status == IDLE else self.status


class Holding(Record):
    """The newest live claim of an external worker, as far as judging the worker needs it."""

    claimed_at: Instant
    lease_expires_at: Instant


class Alive(Record):
    """Not dead now; look again at this time."""

    look_again_at: Instant


class Dead(Record):
    """Dead, for this reason."""

    reason: str
    text: str


def judge(
    last_heartbeat: Instant, interval: Duration, held: Holding | None, grace_from: Instant, now: Instant
) -> Alive | Dead:
    """Decide whether an external worker is dead.

    Two missed heartbeats end it, unless it holds a claim and has sent none since it took that: a loop that is silent
    while its model runs is judged by its lease alone (decision 7). `held` is its newest live claim. Time before
    `grace_from` does not count, because the store itself was away then.
    """
    due = max(last_heartbeat, grace_from) + MISSED_HEARTBEATS * interval
    if held is not None and last_heartbeat <= held.claimed_at:
        due = max(due, held.lease_expires_at)
    if now < due:
        return Alive(due)
    silent, every = format_duration(now - last_heartbeat), format_duration(interval)
    return Dead(HEARTBEAT_TIMEOUT, f"no heartbeat for {silent}, expected every {every}")
