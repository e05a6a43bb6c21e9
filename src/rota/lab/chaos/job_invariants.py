"""Invariants of jobs: what was promised of each accepted job, of its executions and its runs.

Each check is a function of a snapshot and a replay of its log, and yields a text for every violation.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core import worker as workers
from rota.core.times import SECOND
from rota.lab.chaos.plan import COROUTINES, CRASH, CUT, HTTP, KILL_API, POISON
from rota.lab.chaos.snapshot import blocked_for_good

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.times import Instant
    from rota.lab.chaos.ledger_reader import Execution, Life
    from rota.lab.chaos.replay import Replay
    from rota.lab.chaos.snapshot import Snapshot

SPENDS = (jobs.FINISH, jobs.FAIL, jobs.DIE, jobs.EXPIRE)
# No transaction runs for longer; a claim has the time at which its transaction began.
LONGEST_TRANSACTION = 5 * SECOND


def one_at_a_time(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """At most one live claim per job: no handler begins while another has the job."""
    lives = {life.worker: life for life in snapshot.ledger.lives}
    for job, executions in snapshot.ledger.executions_by_job().items():
        for first, second in pairwise(executions):
            if first.overlaps(second, lives.get(first.worker)):
                yield f"job {job} began with token {second.token} while token {first.token} was still running"


def tokens_grow(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Tokens only grow, for each job and overall. A worker that was frozen past its lease may begin with a lost one."""
    lives = {life.worker: life for life in snapshot.ledger.lives}
    for id, executions in snapshot.ledger.executions_by_job().items():
        for first, second in pairwise(executions):
            if first.token_did_not_grow(second, lives.get(second.worker)):
                yield f"job {id} began with token {second.token} after token {first.token}"
    for id, token in snapshot.ledger.settled_late:
        yield f"job {id} was settled with token {token}, which somebody else's had taken the place of"
    for earlier, later in pairwise(snapshot.runs):
        if later.claimed_at < earlier.claimed_at - (LONGEST_TRANSACTION if snapshot.commit_overlap else 0):
            yield f"token {later.token} was drawn before token {earlier.token}"
    for run in snapshot.runs:
        job = snapshot.jobs.get(run.job_id)
        if job is not None and (job.token is None or run.token > job.token):
            yield f"job {job.id} has a run with token {run.token}, and its last claim had {job.token}"


def active_means_held(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """A job is active if and only if a live worker has a live claim on it."""
    for sample in set(snapshot.watch.samples):
        if sample.token is None or sample.worker_status not in workers.LIVE:
            yield f"job {sample.job} was active with {sample.worker} and token {sample.token}, which nobody living has"


def only_known_moves(snapshot: Snapshot, replay: Replay) -> Iterator[str]:
    """Jobs make only the moves of the table, final states are final, and no job begins before its dependencies."""
    yield from replay.wrong_moves
    committed = {run.token for run in snapshot.runs if run.verb == jobs.FINISH}
    executions = snapshot.ledger.executions
    done = {
        execution.job: execution.over_at
        for execution in executions
        if execution.token in committed and execution.over_at
    }
    for execution in executions:
        began = f"job {execution.job} began with token {execution.token}"
        called_off = snapshot.ledger.cancelled.get(execution.job)
        if called_off is not None and execution.started_at > called_off:
            yield f"{began} after it was called off"
        for needed in snapshot.jobs[execution.job].after if execution.job in snapshot.jobs else ():
            if done.get(needed, execution.started_at) >= execution.started_at:
                yield f"{began} before job {needed}, which it waits for, was done"


def every_job_is_over(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Every accepted job exists, is in a final state that the plan explains, and is counted correctly."""
    yield from snapshot.lost
    offered = {str(number) for number in snapshot.ledger.offered}
    for key, times in Counter(job.key for job in snapshot.jobs.values()).items():
        if times > 1:
            yield f"{times} jobs have the key {key}"
    for job in snapshot.jobs.values():
        if job.key not in offered:
            yield f"job {job.id} was never offered"
        if job.status in (jobs.FAILED, jobs.CANCELLED) and not snapshot.is_expected_to_fail(job.id):
            yield f"job {job.id} is {job.status}, and nothing explains it: {job.error}"
    yield from _every_key_is_over(snapshot)
    counts: dict[str, int] = {}
    for job in snapshot.jobs.values():
        counts[job.status] = counts.get(job.status, 0) + 1
    if {status: n for status, n in snapshot.counts.items() if n} != counts:
        yield f"counted {dict(snapshot.counts)}, and there are {counts}"


def _every_key_is_over(snapshot: Snapshot) -> Iterator[str]:
    """Each key of the source succeeded once, or its job still exists and failed for a reason."""
    sourced, failed = snapshot.sourced, {job.key: job for job in snapshot.sourced.failed}
    for key in sorted(sourced.unmarked - failed.keys()):
        yield f"key {key} of the source was never done"
    if sourced.successes + len(failed) != sourced.keys:
        yield f"{sourced.successes} of {sourced.keys} keys succeeded, and {len(failed)} failed"
    for job in failed.values():
        if job.deaths < jobs.DEATHS_TO_QUARANTINE:
            yield f"job {job.id} of the source failed, and nothing explains it: {job.error}"


def one_commit(snapshot: Snapshot, replay: Replay) -> Iterator[str]:
    """At most one commit per job, by the holder of its claim: according to the runs, the log and the ledger."""
    executions = {(execution.job, execution.token): execution for execution in snapshot.ledger.executions}
    commits: dict[int, int] = {}
    for run in snapshot.runs:
        if run.verb not in (jobs.FINISH, jobs.FAIL):
            continue
        execution = executions.get((run.job_id, run.token))
        outcome = "done" if run.verb == jobs.FINISH else "failed"
        if execution is None or execution.outcome != outcome or execution.worker != run.worker_id:
            yield f"job {run.job_id} is told {outcome} by token {run.token}, and no handler ended so with it"
        if run.verb == jobs.FINISH:
            commits[run.job_id] = commits.get(run.job_id, 0) + 1
    for id, times in commits.items():
        if times > 1:
            yield f"job {id} was committed {times} times"
    for job in snapshot.jobs.values():
        by_runs, by_log = commits.get(job.id, 0), replay.finishes.get(job.id, 0)
        if by_runs != by_log or (job.status == jobs.DONE) != (by_runs > 0):
            yield f"job {job.id} is {job.status}, with {by_runs} commits by its runs and {by_log} by the log"


def paused_means_paused(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """No job starts between the acknowledgement of a pause and the resumption of its queue."""
    for pause in snapshot.ledger.pauses:
        for execution in snapshot.ledger.executions:
            job = snapshot.jobs.get(execution.job)
            over = pause.over_at is not None and execution.started_at >= pause.over_at
            if job is not None and job.queue == pause.queue and execution.started_at > pause.began_at and not over:
                yield f"job {execution.job} began with token {execution.token} while queue {pause.queue} was paused"


def attempts_are_spent(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Every end, failure, death and expiry spends one attempt; but no death of a worker that ran several jobs does."""
    spent: dict[int, int] = {}
    run_together = {id for id, job in snapshot.jobs.items() if job.queue == COROUTINES}
    for run in snapshot.runs:
        spends_alone = run.verb in (jobs.FINISH, jobs.FAIL) or run.job_id not in run_together
        if run.verb in SPENDS and spends_alone:
            spent[run.job_id] = spent.get(run.job_id, 0) + 1
    for job in snapshot.jobs.values():
        too_few = job.attempts < spent.get(job.id, 0)
        too_many = job.attempts > spent.get(job.id, 0) and job.id not in run_together
        if too_few or too_many:
            yield f"job {job.id} has spent {job.attempts} attempts, and {spent.get(job.id, 0)} of its runs spend one"


def three_deaths_quarantine(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """A job that cost three workers is quarantined, no other is, and each counted death has a certificate."""
    kinds, named = snapshot.kinds, Counter(certificate.job for certificate in snapshot.certificates.values())
    for job in snapshot.jobs.values():
        quarantined = job.status == jobs.FAILED and (job.error or "").startswith(jobs.QUARANTINED)
        if quarantined != (job.deaths >= jobs.DEATHS_TO_QUARANTINE):
            yield f"job {job.id} cost {job.deaths} workers and is {job.status}"
        if job.deaths > named[job.id]:
            yield f"job {job.id} counts {job.deaths} deaths, and {named[job.id]} certificates name it"
        never_ran = job.status == jobs.BLOCKED and blocked_for_good(job, snapshot.jobs)
        if kinds.get(job.id) == POISON and not quarantined and not never_ran:
            yield f"job {job.id} kills its workers, and is {job.status}"


def accepted_is_durable(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """Every job whose enqueue was acknowledged exists."""
    for number, id in snapshot.ledger.accepted.items():
        if id not in snapshot.jobs or snapshot.jobs[id].key != str(number):
            yield f"job {id} was accepted as number {number}, and is not there"


def limits_hold(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """A queue with a limit never runs more jobs at once."""
    for queue, limit in snapshot.limits.items():
        changes: list[tuple[Instant, int]] = []
        for execution in snapshot.ledger.executions:
            job = snapshot.jobs.get(execution.job)
            if job is not None and job.queue == queue:
                changes.append((execution.started_at, 1))
                changes += [] if execution.over_at is None else [(execution.over_at, -1)]
        running = highest = 0
        for _at, change in sorted(changes):
            running += change
            highest = max(highest, running)
        if highest > limit:
            yield f"{highest} jobs of queue {queue} ran at once, at most {limit} may"


def nothing_runs_again_without_a_reason(snapshot: Snapshot, _: Replay) -> Iterator[str]:
    """A handler runs again only after a failure, or after a fault that may have lost what it did."""
    lives = {life.worker: life for life in snapshot.ledger.lives}
    for job, executions in snapshot.ledger.executions_by_job().items():
        for first, second in pairwise(executions):
            if first.outcome != "failed" and not _is_excused(snapshot, first, second, lives.get(first.worker)):
                came_to = f"nothing befell token {first.token} ({first.outcome or 'cut short'})"
                yield f"job {job} ran again with token {second.token}, and {came_to}"


def _is_excused(snapshot: Snapshot, first: Execution, second: Execution, life: Life | None) -> bool:
    """Whether, before the second began, a fault hit something that the end of the first depended on."""
    if life is None or life.was_ended_by_fault(snapshot.kinds):
        return True
    ledger, options = snapshot.ledger, snapshot.plan.options
    crew = snapshot.crews.get(life.slot)
    behind_api = crew in options.behind_api or (not life.is_supervised and options.over == HTTP)
    kinds = (CUT, CRASH, *((KILL_API,) if behind_api else ()))
    faults = [*ledger.faults_of_crew(crew), *(fault for kind in kinds for fault in ledger.faults_of(kind))]
    return any(first.started_at - SECOND <= fault.at <= second.started_at for fault in faults)
