"""What a plan lets one expect of its jobs, and which of them are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.lab.chaos.plan import FLAKY, POISON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.job import Job
    from rota.lab.chaos.ledger_reader import Execution, Life
    from rota.lab.chaos.snapshot import Snapshot


def blocked_for_good(job: Job, others: Mapping[int, Job]) -> bool:
    """Whether a job waits for one that has failed or was called off, or for one that itself waits for good."""
    needs = [others[id] for id in job.after if id in others]
    return any(need.status in (jobs.FAILED, jobs.CANCELLED) for need in needs) or any(
        need.status == jobs.BLOCKED and blocked_for_good(need, others) for need in needs
    )


def lost(snapshot: Snapshot) -> list[str]:
    """Accepted jobs that are not there, or not over and not waiting for one that failed."""
    found = []
    for id in snapshot.ledger.accepted.values():
        job = snapshot.jobs.get(id)
        if job is None:
            found.append(f"job {id} was accepted, and is not there")
        elif job.status not in jobs.FINAL and not (job.status == jobs.BLOCKED and blocked_for_good(job, snapshot.jobs)):
            found.append(f"job {id} is still {job.status}")
    return found


def is_expected_to_fail(snapshot: Snapshot, id: int) -> bool:
    """Whether a job was poison or called off, or the storm itself killed three workers that had it."""
    if snapshot.jobs[id].status == jobs.CANCELLED:
        return id in snapshot.ledger.called_off
    return snapshot.kinds.get(id) == POISON or snapshot.jobs[id].deaths >= jobs.DEATHS_TO_QUARANTINE


def overlap(first: Execution, second: Execution, life: Life | None) -> bool:
    """Whether a handler began while another had its job, whose worker (`life`) could reach the store."""
    still = first.over_at is None or first.over_at > second.started_at
    return still and not (life is not None and life.was_away(second.started_at))


def out_of_order(first: Execution, second: Execution, life: Life | None) -> bool:
    """Whether a handler began with the same token again, or an older one though its worker could reach the store."""
    was_away = life is not None and life.was_away(second.started_at)
    return second.token == first.token or (second.token < first.token and not was_away)


def planned_starts(kind: str) -> int:
    """How often a job of this kind starts when nothing is broken."""
    return 2 if kind == FLAKY else jobs.DEATHS_TO_QUARANTINE if kind == POISON else 1
