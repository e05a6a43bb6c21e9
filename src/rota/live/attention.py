"""Conditions that need a person's attention, worst first, for the dashboard, `rota top` and `rota doctor`."""

from __future__ import annotations

import re

from rota.core import job as jobs
from rota.core import slot as slots
from rota.core.claim import is_overlong
from rota.core.queue import BREAKER
from rota.core.record import Record
from rota.core.source import is_internal
from rota.core.times import MINUTE, format_duration, instant_of
from rota.store.jobs.unknown_kinds import waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.core.queue import Queue
    from rota.core.schedule import Schedule
    from rota.core.times import Duration, Instant
    from rota.store.jobs.unknown_kinds import Waiting
    from rota.store.store import Store
    from rota.store.workers.crews import Live
    from rota.store.workers.slots import Slot

HOST, SLOT, QUEUE, FAILURES, SCHEDULE, JOB, RUN = "host", "slot", "queue", "failures", "schedule", "job", "run"
NOUNS = (HOST, SLOT, QUEUE, FAILURES, SCHEDULE, JOB, RUN)
MOST = 50  # per noun
MOST_ERRORS = 10
_MOST_FAILED, _MOST_ACTIVE, _MOST_RUNS = 1000, 1000, 1000
_SPECIFIC = re.compile(r"""'[^']*'|"[^"]*"|\S*[\d/]\S*""")
_SUPERVISED = (slots.STARTING, slots.UP, slots.BACKOFF, slots.STOPPING)


class Notice(Record):
    """One condition that needs attention.

    `which` is the name that `rota why` and the API use; for a run it is its job's id, for failures their queue.
    """

    noun: str
    which: str
    text: str
    since: Instant | None


class FailedJob(Record):
    """A failed job, with the beginning of its error."""

    id: int
    title: str
    queue: str
    error: str | None
    at: Instant


class ActiveJob(Record):
    """An active job, and since when."""

    id: int
    title: str
    queue: str
    kind: str
    worker_id: str
    claimed_at: Instant


def notices(store: Store) -> list[Notice]:
    """Return what needs attention: hosts, slots, queues, failed jobs, schedules, quarantined jobs, overlong runs."""
    if store.link is not None:
        return [
            Notice(notice["noun"], notice["which"], notice["text"], notice["since"] and instant_of(notice["since"]))
            for notice in store.link.get("/attention")
        ]
    execute, now, all_slots = store.database.execute, store.now(), store.slots.all()
    queues = store.queues.list()
    failed = [FailedJob(*row) for row in execute("job.failed_newest", {"most": _MOST_FAILED})]
    quarantined = [job for job in failed if (job.error or "").startswith(jobs.QUARANTINED)][:MOST]
    quarantined_ids = {job.id for job in quarantined}
    active = execute("job.held_since", {"before": now - MINUTE, "most": _MOST_ACTIVE})
    longest: dict[str, Duration] = dict(execute("claim.longest", {"most": _MOST_RUNS})) if active else {}
    return [
        *unreachable_hosts(all_slots, store.orchestrators.live(), store.orchestrators.hosts(), now)[:MOST],
        *failed_slots(all_slots)[:MOST],
        *open_breakers(status.queue for status in queues)[:MOST],
        *unknown_kinds(waiting(store, MOST), store.settings.unknown_kind_timeout),
        *failures(
            [job for job in failed if job.id not in quarantined_ids],
            {status.queue.name: status.counts[jobs.FAILED] for status in queues if not is_internal(status.queue.name)},
            quarantined,
        )[:MOST],
        *idle_schedules(store.schedules.list())[:MOST],
        *(Notice(JOB, str(job.id), f"{job.title}: {job.error}", job.at) for job in quarantined),
        *overlong_runs((ActiveJob(*row) for row in active), longest, now)[:MOST],
    ]


def unreachable_hosts(
    all_slots: Iterable[Slot], live: Iterable[Live], hosts: Mapping[str, str], now: Instant
) -> list[Notice]:
    """Return hosts whose orchestrator is late with its lease, or ended without leaving, so that its slots are stale."""
    leases = {(orchestrator.host, orchestrator.crew): orchestrator.lease_expires_at for orchestrator in live}
    late = {place: until for place, until in leases.items() if until is not None and until <= now}
    gone = {
        (slot.host, slot.crew)
        for slot in all_slots
        if slot.wanted and slot.status in _SUPERVISED and (slot.host, slot.crew) not in leases
    }
    notices = [
        Notice(HOST, hosts.get(host, host), f"crew {crew} has not renewed its lease in time", since)
        for (host, crew), since in sorted(late.items())
    ]
    notices += [
        Notice(HOST, hosts.get(host, host), f"the orchestrator of crew {crew} is gone, and did not leave", None)
        for host, crew in sorted(gone)
    ]
    return notices


def failed_slots(all_slots: Iterable[Slot]) -> list[Notice]:
    """Return slots that were given up. Only a reset fills them again."""
    return [
        Notice(SLOT, slot.name, f"failed: it {slot.history.failure_reason}", slot.history.failed_at)
        for slot in all_slots
        if slot.wanted and slot.history.failed_at is not None
    ]


def open_breakers(queues: Iterable[Queue]) -> list[Notice]:
    """Return queues that their breaker paused after too many failures in a row."""
    return [
        Notice(QUEUE, queue.name, f"its breaker paused it: {queue.pause_reason}", queue.paused_at)
        for queue in queues
        if queue.paused_at is not None and queue.paused_by == BREAKER
    ]


def unknown_kinds(kinds: Iterable[Waiting], timeout: Duration) -> list[Notice]:
    """Return queues with jobs of a kind that none of their workers knows. The jobs fail after a time-out."""
    return [Notice(QUEUE, kind.queue, kind.text, kind.until - timeout) for kind in kinds]


def failures(
    failed: Iterable[FailedJob], counts: Mapping[str, int], excluded: Iterable[FailedJob] = ()
) -> list[Notice]:
    """Return failed jobs, counted by queue and error, most first.

    Args:
        failed: The newest failed jobs. Those without one of their commonest errors are counted by queue alone.
        counts: How many failed jobs each queue has.
        excluded: Failed jobs that have notices of their own and are not counted.
    """
    alike: dict[tuple[str, str], list[FailedJob]] = {}
    for job in failed:
        alike.setdefault((job.queue, _gist(job.error)), []).append(job)
    groups = sorted(alike.values(), key=len, reverse=True)[:MOST_ERRORS]
    left = dict(counts)
    for job in (*excluded, *(job for group in groups for job in group)):
        left[job.queue] = left.get(job.queue, 0) - 1
    notices = [
        Notice(FAILURES, group[0].queue, f"{_jobs(len(group))} failed: {_line(group[0].error)}", group[-1].at)
        for group in groups
    ]
    rest = sorted(((n, queue) for queue, n in left.items() if n > 0), reverse=True)
    word = "more " if notices else ""
    return [
        *notices,
        *(Notice(FAILURES, queue, f"{_jobs(n, word)} failed, in other ways or before", None) for n, queue in rest),
    ]


def _jobs(n: int, more: str = "") -> str:
    return f"{n:,} {more}{'job' if n == 1 else 'jobs'}"


def _line(error: str | None) -> str:
    return (error or "no reason given").strip().partition("\n")[0]


def _gist(error: str | None) -> str:
    """Return an error without the parts that differ from job to job: quoted text, and words with a digit or a slash."""
    return _SPECIFIC.sub("…", _line(error))


def idle_schedules(schedules: Iterable[Schedule]) -> list[Notice]:
    """Return schedules that are not paused and whose last run added no job, or one that failed."""
    running = [schedule for schedule in schedules if schedule.paused_at is None]
    notices = [
        Notice(SCHEDULE, schedule.name, schedule.error, None) for schedule in running if schedule.error is not None
    ]
    notices += [
        Notice(SCHEDULE, schedule.name, f"its last job, {schedule.last_job}, failed", schedule.fired_at)
        for schedule in running
        if schedule.error is None and schedule.last_status == jobs.FAILED
    ]
    return notices


def overlong_runs(active: Iterable[ActiveJob], longest: Mapping[str, Duration], now: Instant) -> list[Notice]:
    """Return runs that take far longer than earlier ones of their kind, the oldest first."""
    notices = []
    for job in active:
        age, usual = now - job.claimed_at, longest.get(job.kind)
        if is_overlong(age, () if usual is None else (usual,)):
            others = "none of its kind ended" if usual is None else f"others took {format_duration(usual)} at most"
            text = f"{job.title}: {job.worker_id} runs it for {format_duration(age)}, and {others}"
            notices.append(Notice(RUN, str(job.id), text, job.claimed_at))
    return notices
