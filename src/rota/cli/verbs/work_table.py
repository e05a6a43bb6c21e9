"""The commands of whoever works by hand, in a terminal or a loop. Most of them are called often: see `_find`."""

from __future__ import annotations

from rota.cli.verb import Argument, Command, Option
from rota.core.job import STATES, UNIQUE, UNTIL

_JOB = Argument("ID", "the job", "job", env="ROTA_JOB_ID")
_SOME = Argument("ID", "the jobs", "jobs", env="ROTA_JOB_ID", many=True)
_WORKER = Argument("WORKER", "the worker; without one, your own user and host", "worker", "ROTA_WORKER_ID", False)
_WORKER_ID = Argument("ID", "the worker", "worker", env="ROTA_WORKER_ID")
_PAIR = (Argument("ID", "the job that waits", "job"), Argument("ON_ID", "the job it waits for", "job"))
_TOKEN = Option("--token", "the claim's token, which proves that it is yours", "T", "token", env="ROTA_CLAIM_TOKEN")
_FORCE = Option("--force", "settle it whoever holds it, and even if nobody does; logged as forced")
_LEASE = Option("--lease", "how long the claim lasts; a bare number is minutes", "D", "lease", default="30m")
_QUEUE = Option("--queue", "only this queue", "Q", "queue")
_ALL = Option("--all", "those that are gone too")
_CONDITIONS = ("done", "final", "active", "ready")

JOBS = (
    Command(
        "add",
        "add a job; a key met again answers with the job that has it",
        "verbs.jobs:add",
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
            Option("--unique", "with --key: only while that job is waiting, or active too", "S", choices=UNIQUE),
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
        "verbs.claims:ready",
        "rota ready --limit 1 --json | jq -r '.[0].id'",
        options=(
            _QUEUE,
            Option("--limit", "how many", "N", "count", default="10"),
            Option("--claim", "take the best one", "WORKER", "worker", env="ROTA_WORKER_ID", bare=True),
            _LEASE,
        ),
        hot=True,
    ),
    Command("show", "everything about a job, with its runs", "verbs.jobs:show", "rota show 5", (_JOB,)),
    Command("runs", "what each claim on a job did", "verbs.jobs:runs", "rota runs 5 --json", (_JOB,)),
    Command(
        "logs",
        "what the code of a job's newest run wrote, where its capture_io said that it would",
        "verbs.logs:logs",
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
        "verbs.jobs:list_jobs",
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
        "verbs.jobs:why",
        "rota why 5",
        (Argument("ID", "the job, or a slot such as worker:tag:0", env="ROTA_JOB_ID"),),
    ),
    Command("block", "let a job wait for another", "verbs.jobs:block", "rota block 5 4", _PAIR),
    Command("unblock", "let a job no longer wait for another", "verbs.jobs:unblock", "rota unblock 5 4", _PAIR),
    Command(
        "done",
        "report that a job is done",
        "verbs.settle:done",
        "rota done 5 --token 12 --result '{\"tags\": 3}'",
        (_JOB,),
        (_TOKEN, _FORCE, Option("--result", "JSON, or @file, or - for standard input", "JSON", "json")),
        hot=True,
    ),
    Command(
        "fail",
        "report that a job failed; it is tried again while attempts are left",
        "verbs.settle:fail",
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
        "verbs.settle:snooze",
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
        "verbs.jobs:results",
        "rota results 5 --json | jq '.[].result'",
        (_JOB,),
        (_TOKEN,),
    ),
    Command("cancel", "call jobs off, whatever they are doing", "verbs.jobs:cancel", "rota cancel 5 6", (_SOME,)),
    Command(
        "retry", "run jobs that are over once more, with all attempts", "verbs.jobs:retry", "rota retry 5 6", (_SOME,)
    ),
    Command(
        "wait",
        "wait until jobs are where you want them",
        "verbs.jobs:wait",
        "rota wait 5 6 --for done --timeout 10m",
        (_SOME,),
        (
            Option("--for", "final is done, failed or cancelled", "STATE", default="final", choices=_CONDITIONS),
            Option("--timeout", "give up after this long, with exit code 6", "D", "duration"),
        ),
    ),
)

CLAIMS = (
    Command(
        "claim",
        "take a job; `null` (nothing was ready) waits up to 5 s for work and then exits 6",
        "verbs.claims:claim",
        "rota claim 5 worker-1a2b3c4d --lease 30m",
        (Argument("ID", "the job", "job_or_null", env="ROTA_JOB_ID"), _WORKER),
        (_LEASE,),
        hot=True,
    ),
    Command(
        "claim:renew",
        "extend the lease on a job you hold; never shortens it",
        "verbs.claims:renew",
        "rota claim:renew 5 worker-1a2b3c4d",
        (_JOB, _WORKER),
        (Option("--lease", "as at the claim, unless said otherwise", "D", "lease"), _TOKEN),
        aliases=("claim renew",),
        hot=True,
    ),
    Command(
        "claim:release",
        "give a job back unfinished; no error if its worker has settled it already",
        "verbs.claims:release",
        "rota claim:release 5 worker-1a2b3c4d --note 'half done'",
        (_JOB, _WORKER),
        (Option("--note", "a word for the next holder", "TEXT"), _TOKEN),
        aliases=("claim release",),
        hot=True,
    ),
)

WORKERS = (
    Command(
        "worker register",
        "begin a worker's life; prints its id",
        "verbs.workers:register",
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
        "verbs.workers:heartbeat",
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
        "verbs.workers:deregister",
        "rota worker deregister worker-1a2b3c4d",
        (_WORKER_ID,),
        hot=True,
    ),
    Command(
        "worker list", "the living workers", "verbs.worker_list:list_workers", "rota worker list --all", (), (_ALL,)
    ),
    Command(
        "worker status",
        "one worker's page, or how all of them are; exit code 6 when not healthy",
        "verbs.worker_list:status",
        "rota worker status worker-1a2b3c4d",
        (Argument("ID", "the worker", "worker", required=False),),
    ),
    Command(
        "worker stop",
        "ask a worker to finish and leave; it hears of it with its next beat",
        "verbs.worker_list:stop",
        "rota worker stop worker-1a2b3c4d --graceful",
        (_WORKER_ID,),
        (Option("--graceful", "wait until it has left"),),
    ),
)
