"""`worker list`, `worker status` and `worker stop`: who is there, and how they are."""

from __future__ import annotations

import json
import time

from rota import documents
from rota.cli.output import age, columns, moment, page
from rota.core import worker as workers
from rota.core.ids import printable
from rota.core.times import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call
    from rota.core.worker import Worker
    from rota.store.store import Store
    from rota.store.workers.registration import Certificate

TAIL_LINES = 20
REFUSED = 6
_UNHEALTHY = (workers.DEAD, workers.STOPPED, workers.LATE)
_EMPTY = "no workers; one registers with: rota worker register --name NAME"


def list_workers(call: Call) -> int:
    """The living workers, or all."""
    with call.store() as store:
        found = [(worker, store.workers.shown(worker)) for worker in store.workers.list(bool(call["all"]))]
        if call.json:
            call.document([documents.worker(worker, shown) for worker, shown in found])
        else:
            call.lines(_table(call, found, store) if found else [_EMPTY])
    return 0


def status(call: Call) -> int:
    """One worker's page, or a summary of all."""
    with call.store() as store:
        return _summary(call, store) if call["id"] is None else _one(call, store, store.workers.get(call["id"]))


def stop(call: Call) -> int:
    """Ask a worker to leave; with `--graceful` wait until it has."""
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
    used = json.loads(dead.usage_json or "{}")
    texts = {"cpu_s": "{} s of processor", "peak_mb": "{} MB of memory at most"}
    return ", ".join(text.format(used[name]) for name, text in texts.items() if name in used) or None


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
        told = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
        call.say(f"{living} worker{'s' * (living != 1)}: {told}")
    else:
        call.say(_EMPTY)
    return REFUSED if counts[workers.LATE] else 0


def _table(call: Call, found: list[tuple[Worker, str]], store: Store) -> list[str]:
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
        for worker, shown in found
    ]
    return columns(call, heads, rows)
