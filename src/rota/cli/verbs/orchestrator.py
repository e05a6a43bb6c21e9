"""Crews: `orchestrator start`, `stop` and `status`, `worker start` and `exec`, `scale`, `drain` and `reset`."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any

from rota import documents
from rota.cli.invocation import columns
from rota.cli.verb import Argument, Option, verb
from rota.cli.verbs.init_run import APP, POOL, WORKERS, app_of, crew_of, home, programs_of
from rota.core.errors import BadInput, Conflict, Refused, RotaError
from rota.core.ids import printable
from rota.core.queue import DEFAULT
from rota.core.times import format_duration
from rota.orchestrator.pidlock import MAIN, holder, is_holder, lock_path
from rota.process.host import host_id, is_this, log_of
from rota.store.open import REMOTE

if TYPE_CHECKING:
    from rota.cli.invocation import Call
    from rota.orchestrator.main import Start
    from rota.settings import Settings
    from rota.store.store import Store

STOP_WITHIN = 40.0

_LOG_FORMAT = Option("--log-format", "how its log lines are written", "FORM", default="text", choices=("text", "json"))
_URL = Option("--url", "the HTTP API of a host that has the database, in the place of --db", "URL")
_HOST = Option("--host", "the host, as `orchestrator status` shows it; without it this one", "NAME")
_CREW = Option("--crew", "the crew; main is that of `orchestrator start`", "NAME", default="main")
_QUEUE = Option("--queue", "their queue; default serves all that have no pool", "Q", "queue", default="default")
_COUNT = Option("--workers", "how many", "N", "count", default="1")
_NAME = Option("--name", "the crew's name; without one, the first free of beside, beside-2 …", "NAME", "queue")


@verb(
    "orchestrator start",
    "keep a crew of workers alive until a signal says stop",
    "rota orchestrator start --app shop:app --pool tag=2",
    options=(
        APP,
        POOL,
        WORKERS,
        Option(
            "--program",
            "what runs as the workers of a pool: any that speaks frames; may be repeated",
            "Q=CMD",
            "program",
            many=True,
        ),
        Option("--daemon", "in the background; returns when the first worker is up"),
        Option("--no-http", "without the HTTP API, which otherwise has a slot of its own"),
        _LOG_FORMAT,
    ),
)
def start(call: Call) -> int:
    from rota.orchestrator.main import Start, run

    settings = call.settings()
    app, pools, programs = crew_of(call, settings)
    form, http = call["log_format"] or "text", not call["no_http"]
    crew = Start(app, pools, log_format=form, folder=home(), http=http, programs=programs)
    return _start_daemon(call, crew) if call["daemon"] else run(settings, crew)


@verb(
    "worker start",
    "keep workers alive in a crew of their own, beside any orchestrator, until a signal says stop",
    "rota worker start --app shop:app --queue tag",
    options=(
        APP,
        _QUEUE,
        _COUNT,
        _NAME,
        _URL,
        _LOG_FORMAT,
    ),
)
def start_beside(call: Call) -> int:
    from rota.orchestrator.main import Start, run

    settings, pools = _beside(call), {call["queue"] or DEFAULT: call["workers"] or 1}
    form, folder = call["log_format"] or "text", home()
    programs = programs_of(settings)
    app = None if pools.keys() <= programs.keys() else app_of(call, settings)
    return run(settings, Start(app, pools, call["name"], form, folder=folder, programs=programs))


@verb(
    "worker exec",
    "keep workers alive that run a command for each job of a queue, beside any orchestrator",
    "rota worker exec --queue convert -- ./convert.sh {payload.path}",
    (
        Argument(
            "CMD", "the program and its arguments, after --; {id}, {title}, {payload.NAME} are filled in", many=True
        ),
    ),
    (
        _QUEUE,
        _COUNT,
        _NAME,
        Option("--timeout", "how long a command may take at most", "D", "duration"),
        _URL,
        _LOG_FORMAT,
    ),
)
def exec_beside(call: Call) -> int:
    from rota import exec_app
    from rota.orchestrator.main import Start, run

    command = exec_app.environment(call["cmd"], call["timeout"])
    pools = {call["queue"] or DEFAULT: call["workers"] or 1}
    return run(_beside(call), Start(exec_app.APP, pools, call["name"], call["log_format"] or "text", told=command))


def _beside(call: Call) -> Settings:
    """Return the settings, with the API of `--url` as the database."""
    settings, url = call.settings(), call["url"]
    if url is not None and not url.startswith(REMOTE):
        raise BadInput(f"--url {url!r} is not the address of an HTTP API: write for example http://127.0.0.1:8356")
    return settings.replace(db=url) if url is not None else settings


def _start_daemon(call: Call, crew: Start) -> int:
    from rota.orchestrator.daemon import start_daemon
    from rota.orchestrator.main import NO_WORKERS

    with call.store(make=True) as store:
        url, beside = store.database.url, store.database.beside
    log = log_of(beside, "orchestrator.log")
    started = start_daemon(call.settings().replace(db=url), crew, log)
    if started.problem is not None:
        if started.code == Conflict.exit_code:
            raise Conflict(started.problem)
        raise RotaError(f"no worker came up, so the orchestrator did not stay: {started.problem}; its log is {log}")
    pid = started.process.pid
    # It outlives this process. With an exit code set, `Popen` does not warn that it is still running.
    started.process.returncode = 0
    about = "" if crew.pools else f"; {NO_WORKERS}"
    return call.answer({"pid": pid, "log": log}, f"orchestrator {pid} is up; its log is {log}{about}")


@verb(
    "orchestrator stop",
    "let it finish what is in hand, and wait until it has stopped",
    "rota orchestrator stop",
    options=(
        Option("--graceful", "wait without end"),
        Option("--now", "end the jobs in hand; they run again"),
    ),
)
def stop(call: Call) -> int:
    from rota.process.system import send

    with call.store() as store:
        pid, process = _running(lock_path(store.database.beside))
        if call["graceful"]:
            store.orchestrators.drain(MAIN, host_id())
    for _ in range(0 if call["graceful"] else 2 if call["now"] else 1):
        send(process, pid, signal.SIGTERM)
        time.sleep(0.05 if call["now"] else 0)
    if not select.select([process], [], [], None if call["graceful"] else STOP_WITHIN)[0]:
        raise Refused(f"orchestrator {pid} has not stopped within {STOP_WITHIN:g}s: `--now` ends its jobs")
    return call.answer({"stopped": pid}, f"orchestrator {pid} stopped")


def _running(path: str) -> tuple[int, int]:
    """Return the pid of the orchestrator that holds this lock, with a descriptor of exactly that process."""
    from rota.process.system import open_process

    pid = holder(path)
    if pid is None:
        raise Refused("no orchestrator is running here")
    try:
        process = open_process(pid)
        if is_holder(path, pid):
            return pid, process
        os.close(process)
    except OSError:
        # There is no such process in this pid namespace.
        pass
    raise Refused(f"process {pid} is not the orchestrator that runs: that is in another container, or just begins")


@verb(
    "drain",
    "let the crew finish what it holds, however long that takes, and end",
    "rota drain",
    options=(_CREW, _HOST),
)
def drain(call: Call) -> int:
    crew = call["crew"] or "main"
    with call.store() as store:
        draining = store.orchestrators.drain(crew, _host(call, store))
    if not draining:
        raise Refused(f"no orchestrator of crew {crew} is running {f'on {host}' if (host := call['host']) else 'here'}")
    return call.answer(
        {"draining": [orchestrator.pid for orchestrator in draining]},
        f"orchestrator {draining[0].pid} finishes what it holds, then ends",
    )


@verb(
    "orchestrator status",
    "how it and its slots are, and those of other hosts; exit code 6 when it is not running here",
    "rota orchestrator status --json",
)
def status(call: Call) -> int:
    with call.store() as store:
        pid = holder(lock_path(store.database.beside))
        if store.link is not None:
            document = _with_own(store.link.get("/orchestrator"), pid)
        else:
            document = documents.crew(store, pid)
        if call.json:
            call.document(document)
        else:
            call.lines(_page(call, document))
    return 0 if document["pid"] is not None else 6


def _with_own(document: dict[str, Any], pid: int | None) -> dict[str, Any]:
    """Replace the status of the API's host by that of the orchestrator that runs on this host, if one does."""
    for orchestrator in document["orchestrators"]:
        if orchestrator["pid"] == pid and is_this(orchestrator["host_id"]):
            own = {name: orchestrator[name] for name in ("status", "pid", "started_at", "last_reconcile_at")}
            return {**document, **own, "host": orchestrator["hostname"]}
    return document


@verb(
    "scale",
    "how many workers of a queue the crew on a host should have",
    "rota scale tag=4",
    (Argument("Q=N", "the queue and the number; 0 is none", "scale", many=True),),
    (_CREW, _HOST),
)
def scale(call: Call) -> int:
    with call.store() as store:
        host = _host(call, store)
        for queue, count in call["q=n"]:
            store.slots.scale(call["crew"] or "main", host, queue, count)
    if call.json:
        call.document({"scaled": dict(call["q=n"])})
    else:
        call.lines([f"{queue} scaled to {count}" for queue, count in call["q=n"]])
    return 0


def _host(call: Call, store: Store) -> str:
    """Return the host that was named, or this one."""
    return store.orchestrators.host_named(call["host"]) if call["host"] else host_id()


@verb(
    "reset",
    "clear the restarts of a slot that failed, so that it is filled again",
    "rota reset worker:tag:0",
    (Argument("SLOT", "the slot"),),
    (Option("--forget", "remove the slot with its history"),),
)
def reset(call: Call) -> int:
    with call.store() as store:
        store.slots.reset(call["slot"], bool(call["forget"]))
    done = "forgotten" if call["forget"] else "reset"
    return call.answer({done: call["slot"]}, f"{call['slot']} {done}")


def _page(call: Call, document: dict[str, Any]) -> list[str]:
    head = f"orchestrator {document['status']}" + (f", pid {document['pid']}" if document["pid"] else "")
    others = [
        f"{orchestrator['status']} on {orchestrator['hostname']}, pid {orchestrator['pid']}"
        + (f", crew {orchestrator['crew']}" * (orchestrator["crew"] != "main"))
        for orchestrator in document["orchestrators"]
        if orchestrator["pid"] != document["pid"] or not is_this(orchestrator["host_id"])
    ]
    rows = []
    for slot in document["slots"]:
        if not slot["wanted"] and not slot["worker_id"]:
            continue
        wait = format_duration(round(slot["starts_in"] * 1e6)) if slot["starts_in"] else ""
        about = slot["failure_reason"] or (f"starts in {wait}" if wait else "" if slot["wanted"] else "scaled away")
        restarts = f"{slot['restarts']} now, {slot['lifetime_restarts']} in all"
        cells = (slot["name"], slot["host"] or "", slot["status"], slot["health"] or "", slot["worker_id"] or "")
        rows.append((*cells, restarts, about))
    heads = ("SLOT", "HOST", "STATUS", "HEALTH", "WORKER", "RESTARTS", "ABOUT")
    return [head, *map(printable, others), *columns(call, heads, rows)]
