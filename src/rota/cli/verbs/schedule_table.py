"""The commands of schedules, for the table."""

from __future__ import annotations

from rota.cli.verb import Argument, Command, Option
from rota.core.schedule import MISSED, ONCE, UTC

_NAME = Argument("NAME", "the schedule")

SCHEDULES = (
    Command(
        "schedule add",
        "let a job be added whenever a cron expression says so, or change a schedule that was added so",
        "verbs.schedules:add",
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
    ),
    Command(
        "schedule list",
        "schedules with their next and last times, and the job that each added last",
        "verbs.schedules:list_schedules",
        "rota schedule list --json",
    ),
    Command(
        "schedule show", "everything about a schedule", "verbs.schedules:show", "rota schedule show nightly", (_NAME,)
    ),
    Command(
        "schedule pause",
        "let a schedule add nothing until it is resumed",
        "verbs.schedules:pause",
        "rota schedule pause nightly --reason 'the archive is being moved'",
        (_NAME,),
        (Option("--reason", "for those who ask why", "TEXT"),),
    ),
    Command(
        "schedule resume",
        "let it go on with its next time; what it missed meanwhile is not made up for",
        "verbs.schedules:resume",
        "rota schedule resume nightly",
        (_NAME,),
    ),
    Command(
        "schedule run",
        "add the job of a schedule now, besides those that it adds when it is due",
        "verbs.schedules:run",
        "rota schedule run nightly",
        (_NAME,),
    ),
    Command(
        "schedule remove",
        "remove a schedule; its jobs stay. One that an app declares comes back with the app's next worker",
        "verbs.schedules:remove",
        "rota schedule remove nightly",
        (_NAME,),
    ),
)
