"""Invariants of what people ask for: a pause, a limit, so many attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.lab.chaos.plan import COROUTINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.times import Instant
    from rota.lab.chaos.replay import Replay
    from rota.lab.chaos.snapshot import Snapshot

SPENDS = (jobs.FINISH, jobs.FAIL, jobs.DIE, jobs.EXPIRE)


def paused_means_paused(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """No job starts after a pause was answered, until it is over."""
    for pause in snapshot.ledger.pauses:
        for each in snapshot.ledger.executions:
            job = snapshot.jobs.get(each.job)
            over = pause.over_at is not None and each.started_at >= pause.over_at
            if job is not None and job.queue == pause.queue and each.started_at > pause.began_at and not over:
                yield f"job {each.job} began with token {each.token} while queue {pause.queue} was paused"


def attempts_are_spent(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """An end, a failure, a death and a lapse spend one attempt each; of several in one hand, deaths spend none."""
    spent: dict[int, int] = {}
    crowded = {id for id, job in snapshot.jobs.items() if job.queue == COROUTINES}
    for run in snapshot.runs:
        blamed = run.verb in (jobs.FINISH, jobs.FAIL) or run.job_id not in crowded
        if run.verb in SPENDS and blamed:
            spent[run.job_id] = spent.get(run.job_id, 0) + 1
    for job in snapshot.jobs.values():
        few = job.attempts < spent.get(job.id, 0)
        many = job.attempts > spent.get(job.id, 0) and job.id not in crowded
        if few or many:
            yield f"job {job.id} has spent {job.attempts} attempts, and {spent.get(job.id, 0)} of its runs spend one"


def limits_hold(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Of a queue with a limit never more run at once."""
    for queue, most in snapshot.limits.items():
        changes: list[tuple[Instant, int]] = []
        for each in snapshot.ledger.executions:
            job = snapshot.jobs.get(each.job)
            if job is not None and job.queue == queue:
                changes.append((each.started_at, 1))
                changes += [] if each.over_at is None else [(each.over_at, -1)]
        running = highest = 0
        for _at, change in sorted(changes):
            running += change
            highest = max(highest, running)
        if highest > most:
            yield f"{highest} jobs of queue {queue} ran at once, at most {most} may"
