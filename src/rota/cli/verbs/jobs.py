"""Jobs by hand: add, list, show, block, cancel, retry, wait."""

from __future__ import annotations

from rota import documents
from rota.cli.invocation import aside, columns, job_table, moment, page
from rota.cli.verb import Argument, Option, verb
from rota.cli.verbs.claims import JOB, QUEUE, TOKEN, token
from rota.core.errors import Conflict, NotFound, Refused
from rota.core.ids import job_id, run_id
from rota.core.job import ACTIVE, FINAL, STATES, UNIQUE, UNTIL
from rota.core.times import format_duration, parse_instant
from rota.store.directives import until_acknowledged
from rota.store.jobs.enqueue import NewJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.cli.invocation import Call
    from rota.core.claim import Run
    from rota.core.job import Job

_JOBS = Argument("ID", "the jobs", "jobs", env="ROTA_JOB_ID", many=True)
_CONDITIONS = ("done", "final", "active", "ready")
_PAIR = (Argument("ID", "the job that waits", "job"), Argument("ON_ID", "the job it waits for", "job"))


@verb(
    "add",
    "add a job; a key met again answers with the job that has it",
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
)
def add(call: Call) -> int:
    with call.store(make=True) as store:
        new = NewJob(
            title=call["title"],
            queue=call["queue"] or "default",
            kind=call["kind"] or "",
            payload=call["payload"],
            priority=call["priority"] or 0,
            after=list(dict.fromkeys(call["after"] or ())),
            parent=call["parent"],
            at=parse_instant(call["at"], store.database.wall()) if call["at"] is not None else None,
            key=call["key"],
            limit_key=call["limit_key"],
            max_attempts=call["max_attempts"],
            timeout=call["timeout"],
            until=call["until"] or "done",
            debounce=call["debounce"],
            at_most=call["at_most"],
            unique=call["unique"],
        )
        return _answer(call, store.jobs.add(new, call["wait"] or 0))


@verb(
    "list",
    "jobs, newest first",
    "rota list --status failed",
    options=(
        Option("--status", "only these", "STATE", choices=STATES),
        QUEUE,
        Option("--limit", "how many", "N", "count", default="50"),
        Option("--before", "only older ones than this job", "ID", "job"),
        Option("--internal", "rota's own too: those that fill queues from sources"),
    ),
)
def list_jobs(call: Call) -> int:
    with call.store() as store:
        jobs = store.jobs.list(
            call["status"], call["queue"], call["limit"] or 50, call["before"], bool(call["internal"])
        )
        filtered = call["status"] or call["queue"] or call["before"]
        empty = "no such jobs" if filtered else "no jobs; add one with: rota add 'Title'"
        return call.listing([documents.job(job) for job in jobs], lambda: job_table(call, jobs, store.now()), empty)


@verb("show", "everything about a job, with its runs", "rota show 5", (JOB,))
def show(call: Call) -> int:
    with call.store() as store:
        job = store.jobs.get(call["id"])
        if call.json:
            call.document(documents.job(job))
        else:
            call.lines(_page(job))
            if runs := store.claims.runs(job.id):
                call.lines(["", *_runs(call, runs)])
    return 0


@verb("runs", "what each claim on a job did", "rota runs 5 --json", (JOB,))
def runs(call: Call) -> int:
    with call.store() as store:
        job = store.jobs.get(call["id"])
        ended = store.claims.runs(job.id)
    empty = f"no claim on job {job.id} has ended yet"
    return call.listing([documents.run(run) for run in ended], lambda: _runs(call, ended), empty)


@verb(
    "results",
    "what the jobs said that a job waited for",
    "rota results 5 --json | jq '.[].result'",
    (JOB,),
    (TOKEN,),
)
def results(call: Call) -> int:
    with call.store() as store:
        jobs = store.jobs.results(call["id"], token(call))
    rows = [(job.id, job.status, job.title, job.result_json or job.error) for job in jobs]
    heads = ("JOB", "STATUS", "TITLE", "RESULT")
    needed = [documents.needed(job) for job in jobs]
    return call.listing(needed, lambda: columns(call, heads, rows), f"job {call['id']} waited for none")


@verb(
    "why",
    "why a job is not running, or a slot is empty, in one sentence",
    "rota why 5",
    (Argument("ID", "the job, or a slot such as worker:tag:0", env="ROTA_JOB_ID"),),
)
def why(call: Call) -> int:
    what = call["id"]
    with call.store() as store:
        sentence = store.slots.why(what) if ":" in what else store.jobs.why(job_id(what))
    return call.answer({"id": what if ":" in what else job_id(what), "why": sentence}, sentence)


@verb("block", "let a job wait for another", "rota block 5 4", _PAIR)
def block(call: Call) -> int:
    with call.store() as store:
        return _answer(call, store.jobs.block(call["id"], call["on_id"]))


@verb("unblock", "let a job no longer wait for another", "rota unblock 5 4", _PAIR)
def unblock(call: Call) -> int:
    with call.store() as store:
        return _answer(call, store.jobs.unblock(call["id"], call["on_id"]))


@verb("cancel", "call jobs off, whatever they are doing", "rota cancel 5 6", (_JOBS,))
def cancel(call: Call) -> int:
    """Cancel jobs, and wait until no worker runs them any more."""
    with call.store() as store:
        held: list[int] = []

        def end(id: int) -> Job:
            was = store.jobs.get(id)
            ended = store.jobs.cancel(id)
            if was.orchestrator is not None:
                held.append(id)
            return ended

        code = _each(call, end)
        if held:
            many = len(held) > 1
            named = ", ".join(map(str, held))
            until_acknowledged(store, f"jobs {named} are cancelled" if many else f"job {named} is cancelled")
        return code


@verb("retry", "run jobs that are over once more, with all attempts", "rota retry 5 6", (_JOBS,))
def retry(call: Call) -> int:
    with call.store() as store:
        return _each(call, store.jobs.retry)


@verb(
    "wait",
    "wait until jobs are where you want them",
    "rota wait 5 6 --for done --timeout 10m",
    (_JOBS,),
    (
        Option(
            "--for",
            "final is done, failed or cancelled",
            "STATE",
            default="final",
            choices=_CONDITIONS,
        ),
        Option("--timeout", "give up after this long, with exit code 6", "D", "duration"),
    ),
)
def wait(call: Call) -> int:
    with call.store() as store:
        jobs = store.jobs.wait(call["id"], call["for"] or "final", call["timeout"])
    if call.json:
        call.document([documents.job(job) for job in jobs])
    else:
        for job in jobs:
            call.say(f"job {job.id} {job.status}")
    return 0


def _each(call: Call, change: Callable[[int], Job]) -> int:
    """Change each job. A refusal does not stop the others; the exit code is that of the first refusal."""
    ids = list(dict.fromkeys(call["id"]))
    if len(ids) == 1:
        return _answer(call, change(ids[0]))
    changed: list[Job] = []
    code = 0
    try:
        for id in ids:
            try:
                changed.append(change(id))
            except (Conflict, NotFound, Refused) as problem:
                aside(str(problem))
                code = code or problem.exit_code
            else:
                if not call.json:
                    _answer(call, changed[-1])
    finally:
        # If the store is lost midway, the jobs changed so far are still printed.
        if call.json:
            call.document([documents.job(job) for job in changed])
    return code


def _answer(call: Call, job: Job) -> int:
    waits = f" after {', '.join(map(str, job.after))}" if job.status == "blocked" and job.after else ""
    return call.answer(documents.job(job), f"job {job.id} {job.status}{waits}")


def _page(job: Job) -> list[str]:
    held = job.status == ACTIVE or job.status in FINAL
    return page(
        (
            ("job", job.id),
            ("title", job.title),
            ("status", f"{job.status} ({job.blocked_on})" if job.blocked_on else job.status),
            ("queue", job.queue),
            ("kind", job.kind),
            ("priority", job.priority),
            ("attempts", f"{job.attempts} of {job.max_attempts}"),
            ("payload", job.payload_json),
            ("after", ", ".join(map(str, job.after))),
            ("parent", job.parent),
            ("children", ", ".join(map(str, job.children))),
            ("key", job.key),
            ("source", job.source),
            ("limit key", job.limit_key),
            ("time-out", format_duration(job.timeout) if job.timeout else None),
            ("due", moment(job.due_at)),
            ("scheduled for", moment(job.scheduled_for)),
            ("created", moment(job.created_at)),
            ("worker", job.worker_id if held else None),
            ("run", run_id(job.token) if held and job.token is not None else None),
            ("token", job.token if job.status == ACTIVE else None),
            ("started", moment(job.claimed_at) if held else None),
            ("lease until", moment(job.lease_expires_at) if job.status == ACTIVE else None),
            ("finished", moment(job.finished_at)),
            ("result", job.result_json),
            ("error", job.error),
            ("note", job.note),
        )
    )


def _runs(call: Call, ended: list[Run]) -> list[str]:
    heads = ("RUN", "ATTEMPT", "STATUS", "WORKER", "STARTED", "TOOK", "TOLD")
    rows = []
    for run in ended:
        outcome = ": ".join(text for text in (run.reason, run.error or run.note) if text)
        took = format_duration(max(0, run.ended_at - run.claimed_at))
        rows.append((run.id, run.attempt, run.status, run.worker_id, moment(run.claimed_at), took, outcome))
    return columns(call, heads, rows)
