"""Schedules: add, list, show, pause, resume, run by hand, remove."""

from __future__ import annotations

from rota import documents
from rota.cli.invocation import age, columns, moment, page
from rota.cli.verb import Argument, Option, verb
from rota.core.schedule import MISSED, ONCE, UTC, NewSchedule
from rota.core.times import format_duration
from rota.store.jobs.payload import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call
    from rota.core.schedule import Schedule
    from rota.core.times import Instant

_NAME = Argument("NAME", "the schedule")


@verb(
    "schedule add",
    "let a job be added whenever a cron expression says so, or change a schedule that was added so",
    "rota schedule add nightly --cron '0 2 * * *' --timezone Europe/Berlin --kind report",
    (Argument("NAME", "what it is called; its jobs have it as their title"),),
    (
        Option("--cron", "minute, hour, day, month and weekday, such as '*/5 * * * *'", "CRON", required=True),
        Option("--kind", "the task that runs its jobs", "K"),
        Option("--queue", "the queue they go to", "Q", "queue", default="default"),
        Option("--payload", "JSON, or @file, or - for standard input; at most 256 KiB", "JSON", "json"),
        Option("--timezone", "whose clock it goes by, such as Europe/Berlin", "ZONE", default=UTC),
        Option(
            "--missed",
            "of times that nobody was there for: none, one run, or all",
            "P",
            default=ONCE,
            choices=MISSED,
        ),
    ),
)
def add(call: Call) -> int:
    new = NewSchedule(
        name=call["name"],
        cron=call["cron"],
        timezone=call["timezone"] or UTC,
        missed=call["missed"] or ONCE,
        queue=call["queue"] or "default",
        kind=call["kind"] or "",
        payload_json=encode(call["payload"], "payload"),
    )
    with call.store(make=True) as store:
        return _answer(call, store.schedules.add(new))


@verb(
    "schedule list",
    "schedules with their next and last times, and the job that each added last",
    "rota schedule list --json",
)
def list_schedules(call: Call) -> int:
    with call.store() as store:
        schedules, wall = store.schedules.list(), store.database.wall()
    if call.json:
        call.document([documents.schedule(schedule) for schedule in schedules])
    elif schedules:
        call.lines(_table(call, schedules, wall))
        for schedule in schedules:
            if remark := schedule.error or schedule.pause_reason:
                call.say(f"{schedule.name}: {remark}")
    else:
        call.say("no schedules; add one with: rota schedule add NAME --cron '0 2 * * *' --kind KIND")
    return 0


@verb("schedule show", "everything about a schedule", "rota schedule show nightly", (_NAME,))
def show(call: Call) -> int:
    with call.store() as store:
        schedule = store.schedules.get(call["name"])
    if call.json:
        call.document(documents.schedule(schedule))
    else:
        call.lines(_page(schedule))
    return 0


@verb(
    "schedule pause",
    "let a schedule add nothing until it is resumed",
    "rota schedule pause nightly --reason 'the archive is being moved'",
    (_NAME,),
    (Option("--reason", "for those who ask why", "TEXT"),),
)
def pause(call: Call) -> int:
    with call.store() as store:
        return _answer(call, store.schedules.pause(call["name"], call["reason"]))


@verb(
    "schedule resume",
    "let it go on with its next time; what it missed meanwhile is not made up for",
    "rota schedule resume nightly",
    (_NAME,),
)
def resume(call: Call) -> int:
    with call.store() as store:
        return _answer(call, store.schedules.resume(call["name"]))


@verb(
    "schedule run",
    "add the job of a schedule now, besides those that it adds when it is due",
    "rota schedule run nightly",
    (_NAME,),
)
def run(call: Call) -> int:
    with call.store() as store:
        job = store.schedules.run(call["name"])
    return call.answer(documents.job(job), f"job {job.id} {job.status}")


@verb(
    "schedule remove",
    "remove a schedule; its jobs stay. One that an app declares comes back with the app's next worker",
    "rota schedule remove nightly",
    (_NAME,),
)
def remove(call: Call) -> int:
    with call.store() as store:
        was = store.schedules.get(call["name"])
        store.schedules.remove(was.name)
    back = "; an app declares it, so it comes back with that app's next worker" if was.declared else ""
    return call.answer({"name": was.name}, f"schedule {was.name} removed{back}")


def _answer(call: Call, schedule: Schedule) -> int:
    state = f"next at {moment(schedule.next_at)}" if schedule.paused_at is None else "paused"
    return call.answer(documents.schedule(schedule), f"schedule {schedule.name} {state}")


def _table(call: Call, schedules: list[Schedule], wall: Instant) -> list[str]:
    heads = ("SCHEDULE", "STATUS", "CRON", "TIMEZONE", "QUEUE", "KIND", "NEXT", "IN", "LAST", "JOB", "ENDED")
    rows = []
    for schedule in schedules:
        is_open = schedule.paused_at is None
        wait = max(0, (schedule.next_at or 0) - wall) // 1_000_000 * 1_000_000
        ahead = (
            (moment(schedule.next_at), format_duration(wait))
            if is_open and schedule.next_at is not None
            else (None, None)
        )
        last = (age(schedule.last_at, wall), schedule.last_job, schedule.last_status)
        about = (
            schedule.name,
            "open" if is_open else "paused",
            schedule.cron,
            schedule.timezone,
            schedule.queue,
            schedule.kind,
        )
        rows.append((*about, *ahead, *last))
    return columns(call, heads, rows)


def _page(schedule: Schedule) -> list[str]:
    return page(
        (
            ("schedule", schedule.name),
            ("status", "open" if schedule.paused_at is None else "paused"),
            ("paused since", moment(schedule.paused_at)),
            ("because", schedule.pause_reason),
            ("cron", schedule.cron),
            ("time zone", schedule.timezone),
            ("missed", schedule.missed),
            ("declared by", "an app" if schedule.declared else "hand"),
            ("queue", schedule.queue),
            ("kind", schedule.kind),
            ("payload", schedule.payload_json),
            ("priority", schedule.priority),
            ("max attempts", schedule.max_attempts),
            ("time-out", format_duration(schedule.timeout) if schedule.timeout else None),
            ("next", moment(schedule.next_at) if schedule.paused_at is None else None),
            ("last", moment(schedule.last_at)),
            ("last job", schedule.last_job and f"{schedule.last_job} ({schedule.last_status or 'gone'})"),
            ("jobs added", schedule.fired_count),
            ("error", schedule.error),
        )
    )
