"""What needs a person's attention, worst first: on the dashboard, in `rota top`, wherever somebody looks."""

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
MOST = 50  # of one noun: beyond, somebody has noticed
MOST_ERRORS = 10
_FAILED_LOOKED_AT, _HELD_LOOKED_AT, _RUNS_COMPARED = 1000, 1000, 1000
_OWN = re.compile(r"""'[^']*'|"[^"]*"|\S*[\d/]\S*""")
_LEFT_STANDING = (slots.STARTING, slots.UP, slots.BACKOFF, slots.STOPPING)


class Notice(Record):
    """One thing that needs attention. `which` names it as `rota why` and the API do; a run by its job's id, and
    failures by their queue.
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


class Held(Record):
    """An active job, as far as its age goes."""

    id: int
    title: str
    queue: str
    kind: str
    worker_id: str
    claimed_at: Instant


def notices(store: Store) -> list[Notice]:
    """All that needs attention now: hosts, slots, queues, failed jobs, schedules, quarantined jobs, overlong runs."""
    if store.link is not None:
        return [
            Notice(each["noun"], each["which"], each["text"], instant_of(each["since"]) if each["since"] else None)
            for each in store.link.get("/attention")
        ]
    execute, now, every = store.database.execute, store.now(), store.slots.all()
    found, failed = (
        store.queues.list(),
        [FailedJob(*row) for row in execute("job.failed_newest", {"most": _FAILED_LOOKED_AT})],
    )
    poison = [job for job in failed if (job.error or "").startswith(jobs.QUARANTINED)][:MOST]
    quarantined = {job.id for job in poison}
    held = execute("job.held_since", {"before": now - MINUTE, "most": _HELD_LOOKED_AT})
    longest: dict[str, Duration] = dict(execute("claim.longest", {"most": _RUNS_COMPARED})) if held else {}
    return [
        *unreachable_hosts(every, store.orchestrators.live(), store.orchestrators.hosts(), now)[:MOST],
        *failed_slots(every)[:MOST],
        *open_breakers(status.queue for status in found)[:MOST],
        *unknown_kinds(waiting(store, MOST), store.settings.unknown_kind_timeout),
        *failures(
            [job for job in failed if job.id not in quarantined],
            {each.queue.name: each.counts[jobs.FAILED] for each in found if not is_internal(each.queue.name)},
            poison,
        )[:MOST],
        *idle_schedules(store.schedules.list())[:MOST],
        *(Notice(JOB, str(job.id), f"{job.title}: {job.error}", job.at) for job in poison),
        *overlong_runs((Held(*row) for row in held), longest, now)[:MOST],
    ]


def unreachable_hosts(
    every: Iterable[Slot], live: Iterable[Live], hosts: Mapping[str, str], now: Instant
) -> list[Notice]:
    """Hosts whose orchestrator is late with its lease, or went without leaving: its slots still stand as they were."""
    leases = {(each.host, each.crew): each.lease_expires_at for each in live}
    late = {place: until for place, until in leases.items() if until is not None and until <= now}
    gone = {
        (slot.host, slot.crew)
        for slot in every
        if slot.wanted and slot.status in _LEFT_STANDING and (slot.host, slot.crew) not in leases
    }
    found = [
        Notice(HOST, hosts.get(host, host), f"crew {crew} has not renewed its lease in time", since)
        for (host, crew), since in sorted(late.items())
    ]
    found += [
        Notice(HOST, hosts.get(host, host), f"the orchestrator of crew {crew} is gone, and did not leave", None)
        for host, crew in sorted(gone)
    ]
    return found


def failed_slots(every: Iterable[Slot]) -> list[Notice]:
    """Slots that were given up: only a reset fills them again."""
    return [
        Notice(SLOT, slot.name, f"failed: it {slot.history.failure_reason}", slot.history.failed_at)
        for slot in every
        if slot.wanted and slot.history.failed_at is not None
    ]


def open_breakers(queues: Iterable[Queue]) -> list[Notice]:
    """Queues that paused themselves after too many failures in a row."""
    return [
        Notice(QUEUE, queue.name, f"its breaker paused it: {queue.pause_reason}", queue.paused_at)
        for queue in queues
        if queue.paused_at is not None and queue.paused_by == BREAKER
    ]


def unknown_kinds(every: Iterable[Waiting], timeout: Duration) -> list[Notice]:
    """Queues with jobs of a kind that no worker which had them knows; they fail in the end."""
    return [Notice(QUEUE, each.queue, each.text, each.until - timeout) for each in every]


def failures(failed: Iterable[FailedJob], counts: Mapping[str, int], apart: Iterable[FailedJob] = ()) -> list[Notice]:
    """Failed jobs, counted by queue and error, most first: `failed` are the newest, and `counts` is how many there are.

    What is not among the commonest errors of the newest is counted by queue alone; what is told `apart` is not.
    """
    alike: dict[tuple[str, str], list[FailedJob]] = {}
    for job in failed:
        alike.setdefault((job.queue, _gist(job.error)), []).append(job)
    groups = sorted(alike.values(), key=len, reverse=True)[:MOST_ERRORS]
    left = dict(counts)
    for job in (*apart, *(job for group in groups for job in group)):
        left[job.queue] = left.get(job.queue, 0) - 1
    found = [
        Notice(FAILURES, group[0].queue, f"{_jobs(len(group))} failed: {_line(group[0].error)}", group[-1].at)
        for group in groups
    ]
    rest = sorted(((n, queue) for queue, n in left.items() if n > 0), reverse=True)
    word = "more " if found else ""
    return [
        *found,
        *(Notice(FAILURES, queue, f"{_jobs(n, word)} failed, in other ways or before", None) for n, queue in rest),
    ]


def _jobs(n: int, more: str = "") -> str:
    return f"{n:,} {more}{'job' if n == 1 else 'jobs'}"


def _line(error: str | None) -> str:
    return (error or "no reason given").strip().partition("\n")[0]


def _gist(error: str | None) -> str:
    """An error without what differs from job to job: what is quoted, and words with a digit or a slash in them."""
    return _OWN.sub("…", _line(error))


def idle_schedules(every: Iterable[Schedule]) -> list[Notice]:
    """Schedules whose last time brought no job, or one that failed; a paused one is known to bring none."""
    going = [schedule for schedule in every if schedule.paused_at is None]
    found = [Notice(SCHEDULE, each.name, each.error, None) for each in going if each.error is not None]
    found += [
        Notice(SCHEDULE, each.name, f"its last job, {each.last_job}, failed", each.fired_at)
        for each in going
        if each.error is None and each.last_status == jobs.FAILED
    ]
    return found


def overlong_runs(held: Iterable[Held], longest: Mapping[str, Duration], now: Instant) -> list[Notice]:
    """Runs that take far longer than others of their kind took, the oldest first."""
    found = []
    for each in held:
        age, usual = now - each.claimed_at, longest.get(each.kind)
        if is_overlong(age, () if usual is None else (usual,)):
            others = "none of its kind ended" if usual is None else f"others took {format_duration(usual)} at most"
            text = f"{each.title}: {each.worker_id} runs it for {format_duration(age)}, and {others}"
            found.append(Notice(RUN, str(each.id), text, each.claimed_at))
    return found
