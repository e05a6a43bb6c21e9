"""How a worker's life ended: the certificate's reasons, and whom a death is charged to."""

from __future__ import annotations

from rota.core.record import Record

EXITED, SIGNALED, LOST = "exited", "signaled", "lost"
STARTUP_TIMEOUT, HEARTBEAT_TIMEOUT = "startup_timeout", "heartbeat_timeout"
RECOVERY_TIMEOUT, INVALID_FRAMES = "recovery_timeout", "invalid_frames"
DEADLINE, RECYCLED, OPERATOR = "deadline", "recycled", "killed_by_operator"
SETUP_FAILED, TOO_MANY_ERRORS = "setup_failed", "too_many_errors"
REASONS = (
    EXITED, SIGNALED, STARTUP_TIMEOUT, HEARTBEAT_TIMEOUT, RECOVERY_TIMEOUT, INVALID_FRAMES, DEADLINE, RECYCLED,
    SETUP_FAILED, TOO_MANY_ERRORS, OPERATOR, LOST,
)  # fmt: skip

# Exit codes of our own workers, above those that shells and sysexits use.
EXIT_SETUP_FAILED, EXIT_TOO_MANY_ERRORS, EXIT_ORPHANED, EXIT_RECYCLED = 80, 81, 82, 83
_OWN = {EXIT_SETUP_FAILED: SETUP_FAILED, EXIT_TOO_MANY_ERRORS: TOO_MANY_ERRORS, EXIT_RECYCLED: RECYCLED}


class Exit(Record):
    """The exit status of a process; neither code nor signal if another process has reaped it."""

    code: int | None
    signal: int | None

    @property
    def reason(self) -> str:
        if self.signal is not None:
            return SIGNALED
        return _OWN.get(self.code or 0, EXITED)

    @property
    def text(self) -> str:
        if self.signal is not None:
            return f"ended by signal {self.signal}"
        return "gone, exit code unknown" if self.code is None else f"exited with code {self.code}"


class Charge(Record):
    """Whom a death is charged to: the slot's restart limits, its backoff alone, or nobody.

    `unstarted`: the worker was never ready.
    """

    counts: bool
    backs_off: bool
    unstarted: bool = False


def charge(reason: str, was_running: bool, job_deaths: int) -> Charge:
    """Decide whom a death is charged to.

    A death during a job is that job's fault, and the slot's too unless the job has cost a worker before.
    """
    if reason in (DEADLINE, RECYCLED, OPERATOR, LOST):
        return Charge(counts=False, backs_off=False)
    if reason == TOO_MANY_ERRORS:
        return Charge(counts=False, backs_off=True)
    if was_running and job_deaths > 0:
        return Charge(counts=False, backs_off=False)
    return Charge(counts=True, backs_off=True, unstarted=reason == STARTUP_TIMEOUT)
