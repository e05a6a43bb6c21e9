"""The claim: its states, what a holder may report of it, and what its end means for the job."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core.ids import run_id
from rota.core.record import Record
from rota.core.state_machine import ImpossibleMove, allowed
from rota.core.times import HOUR, MINUTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.job import Job
    from rota.core.retry import Backoff
    from rota.core.state_machine import Moves
    from rota.core.times import Duration, Instant

ACTIVE, COMPLETED, FAILED, RELEASED, EXPIRED = "active", "completed", "failed", "released", "expired"
STATES = (ACTIVE, COMPLETED, FAILED, RELEASED, EXPIRED)
MOVES: Moves = {
    (None, jobs.CLAIM): frozenset({ACTIVE}),
    (ACTIVE, jobs.FINISH): frozenset({COMPLETED}),
    (ACTIVE, jobs.FAIL): frozenset({FAILED}),
    (ACTIVE, jobs.SNOOZE): frozenset({RELEASED}),
    (ACTIVE, jobs.RELEASE): frozenset({RELEASED}),
    (ACTIVE, jobs.CANCEL): frozenset({RELEASED}),
    (ACTIVE, jobs.EXPIRE): frozenset({EXPIRED}),
    (ACTIVE, jobs.DIE): frozenset({EXPIRED}),
}


def ended_as(verb: str) -> str:
    """The state in which a claim ends by this move of its job; the table has exactly one."""
    for status in allowed(MOVES, ACTIVE, verb):
        return status
    raise ImpossibleMove(f"{verb} may not end a claim")


TIMEOUT, LAPSE, DEATH, CANCEL, DEREGISTERED, ORPHANED, POOL = (
    "timeout",
    "lapse",
    "death",
    "cancel",
    "deregistered",
    "orphaned",
    "pool",
)


class Claim(Record):
    """The exclusive right to run one attempt of one job. `token` is both its id and its fencing number."""

    job_id: int
    token: int
    worker_id: str
    claimed_at: Instant
    lease_expires_at: Instant | None
    renewed_count: int = 0
    status: str = ACTIVE

    @property
    def run_id(self) -> str:
        return run_id(self.token)


class Run(Record):
    """What one claim did, recorded when it ended."""

    token: int
    job_id: int
    worker_id: str
    attempt: int
    claimed_at: Instant
    ended_at: Instant
    verb: str
    reason: str | None
    error: str | None
    note: str | None
    renewed_count: int
    transcript_path: str | None = None
    stderr_path: str | None = None

    @property
    def id(self) -> str:
        return run_id(self.token)

    @property
    def status(self) -> str:
        return ended_as(self.verb)


class Captured(Record):
    """The files that a run writes its output to, as its `capture_io` named them; `is_live` while its claim is valid.

    `is_own`: it named none, and rota keeps the output in the folder of captures. `is_remote`: the files were named over
    HTTP, so the paths are left out: no file is opened because a caller of the API named it.
    """

    run_id: str
    transcript_path: str | None
    stderr_path: str | None
    is_live: bool = False
    is_own: bool = False
    is_remote: bool = False


class Done(Record):
    """The handler succeeded; `result` is JSON text."""

    result: str | None = None


class Failed(Record):
    """The handler failed. `again` is false if no further attempt would help.

    `put_off` is set if every job of its pool fails: the job is not to blame, spends no attempt and waits for that time.
    """

    error: str
    again: bool = True
    reason: str | None = None
    put_off: Duration = 0


class Snoozed(Record):
    """The handler asks to be called again after a while. Spends no attempt."""

    delay: Duration
    note: str | None = None


class Released(Record):
    """The job was given back unfinished, with a note for the next holder. Spends no attempt.

    With the reason `kind`, its worker does not know jobs of this kind: it waits for a worker that does.
    """

    note: str | None = None
    reason: str | None = None


class Returned(Record):
    """The job was taken back before it was started: it spends nothing and leaves no run."""


class Lapsed(Record):
    """The lease expired. `crowded`: its worker may have run other jobs as well, as for a death."""

    crowded: bool = False


class Died(Record):
    """The worker that held the claim is dead. `was_running`: it had started this job; if not, nothing is spent.

    `crowded`: it ran other jobs as well. Nobody knows which one is to blame, so none is, and each is run next in
    isolation (decision 13).
    """

    error: str
    was_running: bool = True
    crowded: bool = False


class Cancelled(Record):
    """A person cancelled the job."""

    by: str


if TYPE_CHECKING:
    Outcome = Done | Failed | Snoozed | Released | Returned
    Ending = Outcome | Lapsed | Died | Cancelled


class End(Record):
    """What the end of a claim means for its job: the verb, the next state, or None to wait again, and what is recorded.

    `blocked_on` and `unknown`: what the job waits for in the state `blocked`, and for how long at most. `isolated`:
    whether the next run has a worker for itself; None leaves that as it was.
    """

    verb: str
    status: str | None = None
    spent: int = 1
    delay: Duration = 0
    reason: str | None = None
    error: str | None = None
    note: str | None = None
    result: str | None = None
    died: int = 0
    lapsed: int = 0
    leaves_run: bool = True
    isolated: bool | None = False
    blocked_on: str | None = None
    unknown: Duration = 0


def end(job: Job, ending: Ending, backoff: Backoff, chance: float) -> End:
    """Decide what the end of a claim means for its job.

    Args:
        job: The job as it is before the end.
        ending: How the claim ended.
        backoff: How long a failed job waits for its next attempt.
        chance: A random number from 0 to 1, for the jitter of the backoff.
    """
    left = job.attempts + 1 < job.max_attempts
    match ending:
        case Done(result):
            return End(jobs.FINISH, jobs.DONE, result=result)
        case Failed(error, again, reason, put_off):
            # Every job of its pool fails, so this one is not charged (decision 35).
            if put_off:
                return End(jobs.FAIL, spent=0, delay=put_off, reason=POOL, error=error)
            if again and left:
                return End(jobs.FAIL, delay=backoff.delay(job.attempts + 1, chance), reason=reason, error=error)
            return End(jobs.FAIL, jobs.FAILED, reason=reason, error=error)
        case Snoozed(delay, note):
            return End(jobs.SNOOZE, spent=0, delay=delay, note=note)
        case Released(note, jobs.UNKNOWN_KIND):
            aside = End(jobs.RELEASE, jobs.BLOCKED, blocked_on=jobs.UNKNOWN_KIND, unknown=backoff.unknown)
            return aside.replace(spent=0, note=note, reason=jobs.UNKNOWN_KIND, leaves_run=False, isolated=None)
        case Released(note, reason):
            return End(jobs.RELEASE, spent=0, note=note, reason=reason, isolated=None)
        case Returned():
            return End(jobs.RELEASE, spent=0, leaves_run=False, isolated=None)
        # A death or a lapse skips the backoff: the handler is not to blame.
        case Lapsed(crowded):
            error = f"the lease of {job.worker_id} ran out"
            if crowded:
                return End(jobs.EXPIRE, spent=0, reason=LAPSE, error=error, lapsed=1, isolated=True)
            return End(jobs.EXPIRE, None if left else jobs.FAILED, reason=LAPSE, error=error, lapsed=1)
        case Died(error, was_running, crowded):
            if not was_running:
                return End(jobs.DIE, spent=0, reason=DEATH, leaves_run=False, isolated=None)
            if crowded:
                return End(jobs.DIE, spent=0, reason=DEATH, error=error, isolated=True)
            if job.deaths + 1 >= jobs.DEATHS_TO_QUARANTINE:
                text = f"{jobs.QUARANTINED}: cost {job.deaths + 1} workers; the last: {error}"
                return End(jobs.DIE, jobs.FAILED, reason=jobs.QUARANTINED, error=text, died=1)
            return End(jobs.DIE, None if left else jobs.FAILED, reason=DEATH, error=error, died=1)
        case Cancelled(by):
            return End(jobs.CANCEL, jobs.CANCELLED, spent=0, reason=CANCEL, error=f"cancelled by {by}")


def verb_of(outcome: Outcome) -> str:
    """Return the verb of the move that an outcome makes."""
    match outcome:
        case Done():
            return jobs.FINISH
        case Failed():
            return jobs.FAIL
        case Snoozed():
            return jobs.SNOOZE
        case Released() | Returned():
            return jobs.RELEASE


def is_overlong(age: Duration, taken: Sequence[Duration]) -> bool:
    """Whether a run needs attention: it takes far longer than others of its kind, or than an hour if there are none."""
    return age > (max(MINUTE, 10 * max(taken)) if taken else HOUR)


def renewed(job: Job, lease: Duration, now: Instant) -> Instant:
    """Return the end of a lease renewed by hand: never earlier than before, never past the job's time-out."""
    until = now + lease if job.deadline is None else min(now + lease, job.deadline)
    return max(until, job.lease_expires_at or 0)


def stale_message(job: Job, holder: str) -> str:
    """Return the error for a holder whose claim is no longer valid."""
    if job.status == jobs.ACTIVE:
        return f"job {job.id} is not held by {holder} any more: {job.worker_id} holds it with token {job.token}"
    return f"job {job.id} is not held by {holder} any more: it is {job.status}"
