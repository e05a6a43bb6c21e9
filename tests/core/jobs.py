"""A job record for pure tests."""

from __future__ import annotations

from rota.core.job import ACTIVE, Job


def a_job(**changes: object) -> Job:
    """An active job on its first attempt of three, changed as asked."""
    job = Job(
        id=7,
        title="a job",
        queue="default",
        kind="",
        status=ACTIVE,
        blocked_on=None,
        priority=0,
        payload_json=None,
        parent=None,
        key=None,
        limit_key=None,
        attempts=0,
        max_attempts=3,
        timeout=None,
        generation=1,
        deaths=0,
        lapses=0,
        dependents=0,
        due_at=None,
        due_wall=0,
        created_at=0,
        claimed_at=1_000,
        finished_at=None,
        token=11,
        worker_id="worker-00000001",
        orchestrator=None,
        lease=500,
        lease_expires_at=1_500,
        renewed_count=0,
        result_json=None,
        error=None,
        note=None,
        checkpoint_json=None,
    )
    return job.replace(**changes)
