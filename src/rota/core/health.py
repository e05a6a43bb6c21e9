"""The orchestrator's opinion of a worker that it watches, from frames and from silence."""

from __future__ import annotations

from rota.core.death import HEARTBEAT_TIMEOUT, INVALID_FRAMES, RECOVERY_TIMEOUT, STARTUP_TIMEOUT
from rota.core.record import Record
from rota.core.times import SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.core.state_machine import Moves
    from rota.core.times import Duration, Instant

PENDING, HEALTHY, LATE, RECOVERING, DEAD = "pending", "healthy", "late", "recovering", "dead"
STATES = (PENDING, HEALTHY, LATE, RECOVERING, DEAD)
FRAME, SILENCE, RECOVER, DIE = "healthy frame", "silence", "recovering frame", "die"
MOVES: Moves = {
    (None, "start"): frozenset({PENDING}),
    **{(state, FRAME): frozenset({HEALTHY}) for state in (PENDING, HEALTHY, LATE, RECOVERING)},
    **{(state, SILENCE): frozenset({LATE}) for state in (HEALTHY, LATE)},
    **{(state, RECOVER): frozenset({RECOVERING}) for state in (PENDING, HEALTHY, LATE)},
    **{(state, DIE): frozenset({DEAD}) for state in (PENDING, HEALTHY, LATE, RECOVERING)},
}

SHORTEST_RECOVERY, LONGEST_RECOVERY = 5 * SECOND, 120 * SECOND


class HealthPolicy(Record):
    """How long a worker may be silent before it is ended."""

    startup: Duration = 60 * SECOND
    silent: Duration = 9 * SECOND
    misses: int = 3
    busy_silence: Duration = 120 * SECOND


class Activity(Record):
    """What a silent worker is doing: its job, that job's deadline, and whether its process is stopped."""

    job: int | None = None
    deadline: Instant | None = None
    stopped: bool = False


class Health(Record):
    """The health of one supervised worker. `last_frame_at` is when its last healthy frame came, or its start."""

    state: str
    last_frame_at: Instant
    recover_until: Instant | None = None
    recovered: bool = False
    garbage: int = 0

    def healthy(self, now: Instant) -> Health:
        """A healthy frame clears everything; the dead stay dead."""
        return self if self.state == DEAD else Health(HEALTHY, now)

    def recovering(self, seconds: float | None, now: Instant) -> Health:
        """The worker asks for time. Granted once; further asking never moves the deadline."""
        if self.state == DEAD or self.recovered:
            return self
        wanted = LONGEST_RECOVERY if seconds is None else round(seconds * SECOND)
        until = now + min(max(wanted, SHORTEST_RECOVERY), LONGEST_RECOVERY)
        return self.replace(state=RECOVERING, recover_until=until, recovered=True)

    def moved(self, by: Duration) -> Health:
        """Shift every deadline by the time for which the orchestrator itself was stopped: nobody is judged by it."""
        until = None if self.recover_until is None else self.recover_until + by
        return self.replace(last_frame_at=self.last_frame_at + by, recover_until=until)

    def on_garbage(self) -> Health:
        """Count input that is not a frame."""
        return self.replace(garbage=self.garbage + 1)

    def assess(self, policy: HealthPolicy, activity: Activity, now: Instant) -> tuple[Health, str | None]:
        """Return the health at this time, and the reason to end the worker if there is one."""
        silence = now - self.last_frame_at
        match self.state:
            case "pending":
                return (self, STARTUP_TIMEOUT) if silence >= policy.startup else (self, None)
            case "recovering":
                over = self.recover_until is not None and now >= self.recover_until
                return (self, RECOVERY_TIMEOUT) if over else (self, None)
            case "healthy" | "late" if silence >= policy.silent:
                late = self.replace(state=LATE)
                if silence < policy.silent * policy.misses or self._is_excused(policy, activity, now):
                    return late, None
                return late, INVALID_FRAMES if self.garbage else HEARTBEAT_TIMEOUT
            case _:
                return self, None

    def _is_excused(self, policy: HealthPolicy, activity: Activity, now: Instant) -> bool:
        """Whether silence is excused: a job may hold the interpreter in a long call; a stopped process may not."""
        if activity.job is None or activity.stopped:
            return False
        if activity.deadline is not None:
            return now < activity.deadline
        return now - self.last_frame_at < policy.busy_silence
