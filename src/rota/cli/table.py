"""Every command, once. The parsers, `--help`, completion and the docs are made from this table."""

from __future__ import annotations

from rota.cli.verb import GLOBAL as GLOBAL
from rota.cli.verb import Argument, Command, Option
from rota.cli.verbs.chaos_table import CHAOS
from rota.cli.verbs.crew_table import CREW, FIRST
from rota.cli.verbs.http_table import HTTP, MCP
from rota.cli.verbs.schedule_table import SCHEDULES
from rota.cli.verbs.work_table import CLAIMS, JOBS, WORKERS

_QUEUES = (
    Command("queue list", "queues with their counts and limits", "verbs.queues:list_queues", "rota queue list"),
    Command(
        "queue set",
        "set limits of a queue; none removes one",
        "verbs.queues:set_limits",
        "rota queue set tag --max-depth 1000 --rate 10/m --concurrency none",
        (Argument("Q", "the queue", "queue"),),
        (
            Option("--max-depth", "how many jobs may wait", "N", "limit"),
            Option("--rate", "how many may start per s, m, h or d: 10/m", "R"),
            Option("--concurrency", "how many may run at once", "N", "limit"),
            Option("--per-key", "how many of one --limit-key may run at once", "N", "limit"),
            Option("--breaker", "pause after so many failures in a row", "N", "limit"),
            Option("--fence", "tell or end a handler whose host lost its lease", "F", choices=("tell", "end", "none")),
        ),
    ),
    Command(
        "pause",
        "let nothing new be claimed, from one queue or from all; it persists",
        "verbs.queues:pause",
        "rota pause tag --reason 'model is being replaced'",
        (Argument("Q", "the queue; without one, all", "queue", required=False),),
        (Option("--reason", "for those who ask why", "TEXT"),),
    ),
    Command(
        "resume",
        "the opposite of pause; resuming all resumes each queue too",
        "verbs.queues:resume",
        "rota resume tag",
        (Argument("Q", "the queue; without one, all", "queue", required=False),),
    ),
)

_SOURCES = (
    Command(
        "source list",
        "sources with their progress, and when each is looked at next",
        "verbs.sources:list_sources",
        "rota source list --json",
    ),
    Command(
        "source check",
        "run a source once and show what it would add, and how its query is run; adds nothing",
        "verbs.sources:check",
        "rota source check files --app shop:app",
        (Argument("NAME", "the source"),),
        (
            Option("--app", "the application that declares it", "MODULE:APP", env="ROTA_APP"),
            Option("--limit", "how many keys to show", "N", "count", default="10"),
        ),
    ),
    Command(
        "source forget",
        "remove a source that no app declares any more, with its counters and the jobs that wait",
        "verbs.sources:forget",
        "rota source forget files",
        (Argument("NAME", "the source"),),
    ),
)

_STORE = (
    Command(
        "reconcile",
        "make the store true: dead workers, lapsed leases, orphans, stale states",
        "verbs.maintenance:reconcile",
        "rota reconcile --plan",
        options=(Option("--plan", "say what it would do, and change nothing"),),
        aliases=("orchestrator reconcile",),
    ),
    Command(
        "events",
        "what happened, oldest first; or, followed, how things stand and then what changes",
        "verbs.events:events",
        "rota events --follow --topic 'queue:tag:*'",
        options=(
            Option("--follow", "the live feed: a snapshot, then changes; with --json one document per line"),
            Option("--topic", "only these; * spans segments; may be repeated", "T", many=True),
            Option("--after", "read on from the id of an event", "CURSOR"),
            Option("--limit", "at most so many transactions, the newest", "N", "count", default="50"),
        ),
    ),
    Command(
        "prune",
        "forget old final jobs, runs, events and workers that are gone",
        "verbs.maintenance:prune",
        "rota prune --older 7d",
        options=(
            Option("--older", "what ended longer ago; else as `keep_for` and `keep_failed` say", "D", "duration"),
            Option("--keep", "final jobs per queue to keep at most; else as `keep_jobs` says", "N", "whole"),
            Option("--dry-run", "only say how much would be forgotten"),
        ),
    ),
    Command(
        "migrate",
        "bring the database to this rota's schema",
        "verbs.maintenance:migrate",
        "rota migrate",
        options=(
            Option("--roles", "on PostgreSQL, make roles to own, enqueue, work and read, and give their rights"),
            Option("--after-restore", "leave out every number that may have been given out since the backup was made"),
        ),
    ),
    Command(
        "doctor",
        "check the database and all in it; exit code 1 when something is bad",
        "doctor.checks:doctor",
        "rota doctor",
    ),
    Command(
        "completion",
        "print the completion script of a shell",
        "completion:completion",
        'eval "$(rota completion bash)"',
        (Argument("SHELL", "bash or zsh", choices=("bash", "zsh")),),
    ),
    Command(
        "help",
        "show all commands, or one",
        "help:help_command",
        "rota help claim",
        (Argument("COMMAND", "the command", required=False, many=True),),
    ),
)

_TRACKING = (
    Command(
        "tracking install",
        "make worker tracking in a PostgreSQL database, where it is absent",
        "verbs.tracking:install",
        "rota tracking install --db postgresql://owner@localhost/app --grant embedder",
        options=(Option("--grant", "give this role what a worker needs", "ROLE"),),
    ),
    Command(
        "tracking uninstall",
        "drop what `tracking install` made, and nothing else",
        "verbs.tracking:uninstall",
        "rota tracking uninstall --yes",
        options=(Option("--yes", "do not ask; needed where there is no terminal"),),
    ),
    Command(
        "tracking status",
        "living and dead workers, and how each vectorizer is doing",
        "verbs.tracking:status",
        "rota tracking status --json",
        options=(
            Option("--limit", "how many of the living and of the dead, the latest first", "N", "count", default="20"),
        ),
    ),
    Command(
        "tracking prune",
        "forget workers that have been dead for long",
        "verbs.tracking:prune",
        "rota tracking prune --older 7d",
        options=(Option("--older", "whose last beat was longer ago", "D", "duration", default="7d"),),
    ),
)

SECTIONS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    ("First", FIRST),
    ("Jobs", JOBS),
    ("Claims", CLAIMS),
    ("Workers", WORKERS),
    ("Crew", CREW),
    ("Queues", _QUEUES),
    ("Sources", _SOURCES),
    ("Schedules", SCHEDULES),
    ("HTTP", HTTP),
    ("MCP", MCP),
    ("Store", _STORE),
    ("Tracking", _TRACKING),
    ("Trials", CHAOS),
)
COMMANDS: list[Command] = [command for _, section in SECTIONS for command in section]
