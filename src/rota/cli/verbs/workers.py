"""Workers: registered, kept alive and deregistered by hand; listed, shown and stopped.

Loops call `worker heartbeat` on every turn, so this file imports next to nothing at module level (decision 5).
"""

from __future__ import annotations

import time

from rota import documents
from rota.cli.invocation import age, columns, moment, page
from rota.cli.verb import Argument, Option, verb
from rota.core import worker as workers
from rota.core.errors import UnknownWorker
from rota.core.ids import printable
from rota.core.jsontext import decode
from rota.core.times import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call
    from rota.core.worker import Worker
    from rota.store.store import Store
    from rota.store.workers.registration import Certificate

TAIL_LINES = 20
REFUSED = 6

_ID = Argument("ID", "the worker", "worker", env="ROTA_WORKER_ID")
_UNHEALTHY = (workers.DEAD, workers.STOPPED, workers.LATE)
_EMPTY = "no workers; one registers with: rota worker register --name NAME"


@verb(
    "worker register",
    "begin a worker's life; prints its id",
    "rota worker register --name night-shift --json | jq -r .id",
    options=(
        Option("--name", "a name for people", "N", required=True),
        Option("--every", "how often it promises to beat", "D", "duration", default="30s"),
        Option("--pid", "its process, for an orchestrator on this host to watch", "P", "count"),
        Option("--queue", "the queue it works for", "Q", "queue"),
    ),
    hot=True,
)
def register(call: Call) -> int:
    with call.store(make=True) as store:
        worker = store.workers.register(call["name"], call["every"], call["pid"], call["queue"])
        if call.json:
            call.document(documents.worker(worker, worker.status))
        else:
            call.say(worker.id)
    return 0


@verb(
    "worker heartbeat",
    "a sign of life; prints what to do: continue, stop, pause or register",
    "rota worker heartbeat worker-1a2b3c4d --busy 5",
    (_ID,),
    (
        Option("--busy", "the job in hand", "JOB", "job"),
        Option("--cpu", "percent of a core", "P", "number"),
        Option("--memory", "resident, in MB", "MB", "number"),
        Option("--completed", "jobs completed so far", "N", "whole"),
    ),
    hot=True,
)
def heartbeat(call: Call) -> int:
    id = call["id"]
    metrics = {name: call[name] for name in ("busy", "cpu", "memory", "completed") if call[name] is not None}
    with call.store() as store:
        try:
            advice = store.workers.heartbeat(id, metrics)
        except UnknownWorker:
            call.answer({"id": id, "advice": workers.REGISTER_AGAIN}, workers.REGISTER_AGAIN)
            raise
    return call.answer({"id": id, "advice": advice}, advice)


@verb(
    "worker deregister",
    "end a worker's life; what it holds goes back",
    "rota worker deregister worker-1a2b3c4d",
    (_ID,),
    hot=True,
)
def deregister(call: Call) -> int:
    with call.store() as store:
        given_back = store.workers.deregister(call["id"])
    return call.answer(
        {"id": call["id"], "released": given_back},
        f"{call['id']} left, {given_back} job{'s' * (given_back != 1)} given back",
    )


@verb(
    "worker list",
    "the living workers",
    "rota worker list --all",
    options=(Option("--all", "those that are gone too"),),
)
def list_workers(call: Call) -> int:
    with call.store() as store:
        shown_workers = [(worker, store.workers.shown(worker)) for worker in store.workers.list(bool(call["all"]))]
        listed = [documents.worker(worker, shown) for worker, shown in shown_workers]
        return call.listing(listed, lambda: _table(call, shown_workers, store), _EMPTY)


@verb(
    "worker status",
    "one worker's page, or how all of them are; exit code 6 when not healthy",
    "rota worker status worker-1a2b3c4d",
    (Argument("ID", "the worker", "worker", required=False),),
)
def status(call: Call) -> int:
    with call.store() as store:
        return _summary(call, store) if call["id"] is None else _one(call, store, store.workers.get(call["id"]))


@verb(
    "worker stop",
    "ask a worker to finish and leave; it hears of it with its next beat",
    "rota worker stop worker-1a2b3c4d --graceful",
    (_ID,),
    (Option("--graceful", "wait until it has left"),),
)
def stop(call: Call) -> int:
    with call.store() as store:
        worker = store.workers.stop(call["id"])
        if call["graceful"]:
            worker = _wait_until_gone(store, worker)
        shown = store.workers.shown(worker)
        if call.json:
            call.document(documents.worker(worker, shown))
        elif worker.status in workers.LIVE:
            call.say(f"{worker.id} is asked to stop: it hears of it with its next beat")
        else:
            call.say(f"{worker.id} is {shown}")
    return 0


def _wait_until_gone(store: Store, worker: Worker) -> Worker:
    while worker.status in workers.LIVE:
        time.sleep(0.2)
        store.tick()
        worker = store.workers.get(worker.id)
    return worker


def _one(call: Call, store: Store, worker: Worker) -> int:

    shown = store.workers.shown(worker)
    held, certificate = store.workers.held(worker.id), store.workers.certificate(worker.id)
    dead = certificate if shown == workers.DEAD else None
    if call.json:
        call.document(
            {**documents.worker(worker, shown), **({"death": documents.death(worker.id, dead)} if dead else {})}
        )
    else:
        every = format_duration(worker.heartbeat_interval) if worker.heartbeat_interval else None
        lines = page(
            (
                ("worker", worker.id),
                ("name", worker.name),
                ("status", f"{shown} (asked to {worker.desired})" if worker.desired else shown),
                ("host", f"{worker.hostname}, process {worker.pid}" if worker.pid else worker.hostname),
                ("queue", worker.queue),
                ("slot", worker.slot),
                ("version", worker.version),
                ("registered", moment(worker.registered_at)),
                ("last beat", f"{moment(worker.last_heartbeat_at)}, {age(worker.last_heartbeat_at, store.now())} ago"),
                ("beats", f"{worker.heartbeat_count}, one every {every}" if every else worker.heartbeat_count),
                ("succeeded", worker.success_count),
                ("failed", worker.error_count),
                (
                    "last error",
                    worker.last_error_message and f"{moment(worker.last_error_at)}: {worker.last_error_message}",
                ),
                ("reported", worker.metadata_json),
                ("died", dead and f"{moment(dead.died_at)}, {dead.reason}: {dead.text}"),
                ("job in hand", dead and dead.job),
                ("used", dead and _used(dead)),
                ("last frame", dead and dead.last_frame),
            )
        )
        if dead and dead.stderr_tail and dead.stderr_tail.strip():
            lines += ["stderr, the end:", *map(printable, dead.stderr_tail.rstrip().splitlines()[-TAIL_LINES:])]
        call.lines(lines)
        for job in held:
            call.say(f"holds job {job.id} until {moment(job.lease_expires_at) or 'it is done'}: {job.title}")
    return REFUSED if shown in _UNHEALTHY else 0


def _used(dead: Certificate) -> str | None:
    usage = decode(dead.usage_json or "{}")
    texts = {"cpu_s": "{} s of processor", "peak_mb": "{} MB of memory at most"}
    return ", ".join(text.format(usage[name]) for name, text in texts.items() if name in usage) or None


def _summary(call: Call, store: Store) -> int:
    counts = dict.fromkeys((state for state in workers.SHOWN), 0)
    for worker in store.workers.list():
        counts[store.workers.shown(worker)] += 1
    living = sum(counts.values())
    if call.json:
        call.document(
            {"workers": living, **{state: n for state, n in counts.items() if state not in ("stopped", "dead")}}
        )
    elif living:
        by_state = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
        call.say(f"{living} worker{'s' * (living != 1)}: {by_state}")
    else:
        call.say(_EMPTY)
    return REFUSED if counts[workers.LATE] else 0


def _table(call: Call, shown_workers: list[tuple[Worker, str]], store: Store) -> list[str]:
    now = store.now()
    heads = ("ID", "STATUS", "JOB", "QUEUE", "BEAT", "DONE", "FAILED", "HOST", "NAME")
    rows = [
        (
            worker.id,
            shown,
            worker.current_job,
            worker.queue or "any",
            f"{age(worker.last_heartbeat_at, now)} ago",
            worker.success_count,
            worker.error_count,
            worker.hostname,
            worker.name,
        )
        for worker, shown in shown_workers
    ]
    return columns(call, heads, rows)
