"""Every command, once. The parsers, `--help`, completion and the docs are made from this table."""

from __future__ import annotations

from rota.cli.chaos_table import CHAOS
from rota.cli.command import Argument, Command, Option
from rota.cli.crew_table import CREW, FIRST
from rota.cli.http_table import HTTP, MCP
from rota.cli.schedule_table import SCHEDULES
from rota.core.job import STATES, UNTIL

DB = Option("--db", "the database: a path, sqlite:///path or postgresql://user@host/database", "URL", env="ROTA_DB")
JSON = Option("--json", "print one JSON document on stdout, and nothing else there")
HELP = Option("--help", "show this and leave")
GLOBAL = (DB, JSON, HELP)

_JOB = Argument("ID", "the job", "job", env="ROTA_JOB_ID")
_WORKER = Argument("WORKER", "the worker; without one, your own user and host", "worker", "ROTA_WORKER_ID", False)
_WORKER_ID = Argument("ID", "the worker", "worker", env="ROTA_WORKER_ID")
_PAIR = (Argument("ID", "the job that waits", "job"), Argument("ON_ID", "the job it waits for", "job"))
_TOKEN = Option("--token", "the claim's token, which proves that it is yours", "T", "token", env="ROTA_CLAIM_TOKEN")
_FORCE = Option("--force", "settle it whoever holds it, and even if nobody does; logged as forced")
_LEASE = Option("--lease", "how long the claim lasts; a bare number is minutes", "D", "lease", default="30m")
_QUEUE = Option("--queue", "only this queue", "Q", "queue")
_ALL = Option("--all", "those that are gone too")
_CONDITIONS = ("done", "final", "active", "ready")

_JOBS = (
    Command(
        "add",
        "add a job; a key met again answers with the job that has it",
        "jobs:add",
        "rota add 'Tag a.wav' --queue tag --payload '{\"path\": \"a.wav\"}'",
        arguments=(Argument("TITLE", "what is to be done, in a few words"),),
        options=(
            Option("--queue", "the queue it goes to", "Q", "queue", default="default"),
            Option("--kind", "the task that runs it", "K"),
            Option("--payload", "JSON, or @file, or - for standard input; at most 256 KiB", "JSON", "json"),
            Option("--priority", "higher runs first", "N", "integer", default="0"),
            Option("--after", "wait for these jobs; may be repeated", "ID…", "jobs", many=True),
            Option("--until", "wait for those until they are done, or only final", "U", default="done", choices=UNTIL),
            Option("--parent", "the job it is part of", "ID", "job"),
            Option("--at", "not before this time: 2026-12-01T09:00Z or +30m", "TIME"),
            Option("--key", "at most one job per queue has this key", "K"),
            Option("--debounce", "with --key: added again while it waits, put it off by so long", "D", "duration"),
            Option("--at-most", "with --debounce: so long in all", "D", "duration"),
            Option("--limit-key", "the key that the queue's --per-key limit counts", "K"),
            Option("--max-attempts", "how often it is tried", "N", "count", default="3"),
            Option("--timeout", "end an attempt that takes longer", "D", "duration"),
            Option("--wait", "wait this long for room in a full queue", "D", "duration"),
        ),
    ),
    Command(
        "ready",
        "jobs that can be claimed now, best first; with --claim, take the best in one step",
        "claims:ready",
        "rota ready --limit 1 --json | jq -r '.[0].id'",
        options=(
            _QUEUE,
            Option("--limit", "how many", "N", "count", default="10"),
            Option("--claim", "take the best one", "WORKER", "worker", env="ROTA_WORKER_ID", bare=True),
            _LEASE,
        ),
        hot=True,
    ),
    Command("show", "everything about a job, with its runs", "jobs:show", "rota show 5", (_JOB,)),
    Command("runs", "what each claim on a job did", "jobs:runs", "rota runs 5 --json", (_JOB,)),
    Command(
        "logs",
        "what the code of a job's newest run wrote, where its capture_io said that it would",
        "logs:logs",
        "rota logs 5 --follow",
        (_JOB,),
        (
            Option("--run", "this run instead, such as run-0000002s", "RUN"),
            Option("--stderr", "its errors instead of its transcript"),
            Option("--follow", "go on as more is written, until the run is over"),
        ),
    ),
    Command(
        "list",
        "jobs, newest first",
        "jobs:list_jobs",
        "rota list --status failed",
        options=(
            Option("--status", "only these", "STATE", choices=STATES),
            _QUEUE,
            Option("--limit", "how many", "N", "count", default="50"),
            Option("--before", "only older ones than this job", "ID", "job"),
            Option("--internal", "rota's own too: those that fill queues from sources"),
        ),
    ),
    Command(
        "why",
        "why a job is not running, or a slot is empty, in one sentence",
        "jobs:why",
        "rota why 5",
        (Argument("ID", "the job, or a slot such as worker:tag:0", env="ROTA_JOB_ID"),),
    ),
    Command("block", "let a job wait for another", "jobs:block", "rota block 5 4", _PAIR),
    Command("unblock", "let a job no longer wait for another", "jobs:unblock", "rota unblock 5 4", _PAIR),
    Command(
        "done",
        "report that a job is done",
        "settle:done",
        "rota done 5 --token 12 --result '{\"tags\": 3}'",
        (_JOB,),
        (_TOKEN, _FORCE, Option("--result", "JSON, or @file, or - for standard input", "JSON", "json")),
        hot=True,
    ),
    Command(
        "fail",
        "report that a job failed; it is tried again while attempts are left",
        "settle:fail",
        "rota fail 5 --error 'no such file'",
        (_JOB,),
        (
            Option("--error", "what went wrong", "TEXT", required=True),
            _TOKEN,
            _FORCE,
            Option("--final", "trying again would not help"),
        ),
    ),
    Command(
        "snooze",
        "give a job back that you hold, not to be tried before a while; spends no attempt",
        "settle:snooze",
        "rota snooze 5 --for 10m --note 'the disk is asleep'",
        (_JOB,),
        (
            Option("--for", "how long", "D", "duration", required=True),
            Option("--note", "a word for the next holder", "TEXT"),
            _TOKEN,
        ),
    ),
    Command(
        "results",
        "what the jobs said that a job waited for",
        "jobs:results",
        "rota results 5 --json | jq '.[].result'",
        (_JOB,),
        (_TOKEN,),
    ),
    Command("cancel", "call a job off, whatever it is doing", "jobs:cancel", "rota cancel 5", (_JOB,)),
    Command("retry", "run a job that is over once more, with all its attempts", "jobs:retry", "rota retry 5", (_JOB,)),
    Command(
        "wait",
        "wait until jobs are where you want them",
        "jobs:wait",
        "rota wait 5 6 --for done --timeout 10m",
        (Argument("ID", "the jobs", "jobs", env="ROTA_JOB_ID", many=True),),
        (
            Option("--for", "final is done, failed or cancelled", "STATE", default="final", choices=_CONDITIONS),
            Option("--timeout", "give up after this long, with exit code 6", "D", "duration"),
        ),
    ),
)

_CLAIMS = (
    Command(
        "claim",
        "take a job; `null` (nothing was ready) waits up to 5 s for work and then exits 6",
        "claims:claim",
        "rota claim 5 worker-1a2b3c4d --lease 30m",
        (Argument("ID", "the job", "job_or_null", env="ROTA_JOB_ID"), _WORKER),
        (_LEASE,),
        hot=True,
    ),
    Command(
        "claim:renew",
        "extend the lease on a job you hold; never shortens it",
        "claims:renew",
        "rota claim:renew 5 worker-1a2b3c4d",
        (_JOB, _WORKER),
        (Option("--lease", "as at the claim, unless said otherwise", "D", "lease"), _TOKEN),
        aliases=("claim renew",),
        hot=True,
    ),
    Command(
        "claim:release",
        "give a job back unfinished; no error if its worker has settled it already",
        "claims:release",
        "rota claim:release 5 worker-1a2b3c4d --note 'half done'",
        (_JOB, _WORKER),
        (Option("--note", "a word for the next holder", "TEXT"), _TOKEN),
        aliases=("claim release",),
        hot=True,
    ),
)

_WORKERS = (
    Command(
        "worker register",
        "begin a worker's life; prints its id",
        "workers:register",
        "rota worker register --name night-shift --json | jq -r .id",
        options=(
            Option("--name", "a name for people", "N", required=True),
            Option("--every", "how often it promises to beat", "D", "duration", default="30s"),
            Option("--pid", "its process, for an orchestrator on this host to watch", "P", "count"),
            Option("--queue", "the queue it works for", "Q", "queue"),
        ),
        hot=True,
    ),
    Command(
        "worker heartbeat",
        "a sign of life; prints what to do: continue, stop, pause or register",
        "workers:heartbeat",
        "rota worker heartbeat worker-1a2b3c4d --busy 5",
        (_WORKER_ID,),
        (
            Option("--busy", "the job in hand", "JOB", "job"),
            Option("--cpu", "percent of a core", "P", "number"),
            Option("--memory", "resident, in MB", "MB", "number"),
            Option("--completed", "jobs completed so far", "N", "whole"),
        ),
        hot=True,
    ),
    Command(
        "worker deregister",
        "end a worker's life; what it holds goes back",
        "workers:deregister",
        "rota worker deregister worker-1a2b3c4d",
        (_WORKER_ID,),
        hot=True,
    ),
    Command("worker list", "the living workers", "roster:list_workers", "rota worker list --all", (), (_ALL,)),
    Command(
        "worker status",
        "one worker's page, or how all of them are; exit code 6 when not healthy",
        "roster:status",
        "rota worker status worker-1a2b3c4d",
        (Argument("ID", "the worker", "worker", required=False),),
    ),
    Command(
        "worker stop",
        "ask a worker to finish and leave; it hears of it with its next beat",
        "roster:stop",
        "rota worker stop worker-1a2b3c4d --graceful",
        (_WORKER_ID,),
        (Option("--graceful", "wait until it has left"),),
    ),
)

_QUEUES = (
    Command("queue list", "queues with their counts and limits", "queues:list_queues", "rota queue list"),
    Command(
        "queue set",
        "set limits of a queue; none removes one",
        "queues:set_limits",
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
        "queues:pause",
        "rota pause tag --reason 'model is being replaced'",
        (Argument("Q", "the queue; without one, all", "queue", required=False),),
        (Option("--reason", "for those who ask why", "TEXT"),),
    ),
    Command(
        "resume",
        "the opposite of pause; resuming all resumes each queue too",
        "queues:resume",
        "rota resume tag",
        (Argument("Q", "the queue; without one, all", "queue", required=False),),
    ),
)

_SOURCES = (
    Command(
        "source list",
        "sources with their progress, and when each is looked at next",
        "sources:list_sources",
        "rota source list --json",
    ),
    Command(
        "source check",
        "run a source once and show what it would add, and how its query is run; adds nothing",
        "sources:check",
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
        "sources:forget",
        "rota source forget files",
        (Argument("NAME", "the source"),),
    ),
)

_STORE = (
    Command(
        "reconcile",
        "make the store true: dead workers, lapsed leases, orphans, stale states",
        "upkeep:reconcile",
        "rota reconcile --plan",
        options=(Option("--plan", "say what it would do, and change nothing"),),
        aliases=("orchestrator reconcile",),
    ),
    Command(
        "events",
        "what happened, oldest first; or, followed, how things stand and then what changes",
        "events:events",
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
        "upkeep:prune",
        "rota prune --older 7d",
        options=(
            Option("--older", "what ended longer ago", "D", "duration", default="7d"),
            Option("--keep", "final jobs per queue to keep at most", "N", "whole", default="1000000"),
        ),
    ),
    Command(
        "migrate",
        "bring the database to this rota's schema",
        "upkeep:migrate",
        "rota migrate",
        options=(
            Option("--roles", "on PostgreSQL, make roles to own, enqueue, work and read, and give their rights"),
            Option("--after-restore", "leave out every number that may have been given out since the backup was made"),
        ),
    ),
    Command(
        "doctor", "check the database and all in it; exit code 1 when something is bad", "doctor:doctor", "rota doctor"
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
        "tracking:install",
        "rota tracking install --db postgresql://owner@localhost/app --grant embedder",
        options=(Option("--grant", "give this role what a worker needs", "ROLE"),),
    ),
    Command(
        "tracking uninstall",
        "drop what `tracking install` made, and nothing else",
        "tracking:uninstall",
        "rota tracking uninstall --yes",
        options=(Option("--yes", "do not ask; needed where there is no terminal"),),
    ),
    Command(
        "tracking status",
        "living and dead workers, and how each vectorizer is doing",
        "tracking:status",
        "rota tracking status --json",
        options=(
            Option("--limit", "how many of the living and of the dead, the latest first", "N", "count", default="20"),
        ),
    ),
    Command(
        "tracking prune",
        "forget workers that have been dead for long",
        "tracking:prune",
        "rota tracking prune --older 7d",
        options=(Option("--older", "whose last beat was longer ago", "D", "duration", default="7d"),),
    ),
)

SECTIONS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    ("First", FIRST),
    ("Jobs", _JOBS),
    ("Claims", _CLAIMS),
    ("Workers", _WORKERS),
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
