"""A job that is claimed by hand, as an orchestrator would hand it out: every handler gets the same context."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.claim import Claim, Run
    from rota.core.job import Job
    from rota.worker.job_state import Handed

_RUN = ("worker_id", "attempt", "status", "reason", "error", "note")


def handed(job: Job, claim: Claim, runs: Sequence[Run], deadline: float | None) -> Handed:
    """`deadline` is a moment of `time.monotonic()`; `runs` are what earlier claims did."""
    return {
        "id": job.id,
        "token": claim.token,
        "queue": job.queue,
        "kind": job.kind,
        "title": job.title,
        "payload": job.payload_json,
        "priority": job.priority,
        "attempt": job.attempts + 1,
        "max_attempts": job.max_attempts,
        "timeout": job.timeout,
        "deadline": deadline,
        "checkpoint": job.checkpoint_json,
        "key": job.key,
        "scheduled_for": job.scheduled_for,
        "trace": job.trace,
        "previous_runs": [{"run_id": run.id, **{name: getattr(run, name) for name in _RUN}} for run in runs],
    }
