"""`orchestrator start`, `stop`, `status` and `reset`."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from rota.cli.show import columns
from rota.core.errors import BadInput, Refused
from rota.core.times import format_duration, format_instant

if TYPE_CHECKING:
    from rota.cli.call import Call
    from rota.store.slots import Slot
    from rota.store.store import Store

STOP_WITHIN = 40.0


def start(call: Call) -> int:
    """Keep a crew alive in the foreground until a signal says stop."""
    from rota.orchestrator.run import run

    pools = dict(call["pool"] or [])
    if call["workers"] is not None:
        if "default" in pools:
            raise BadInput("--workers N is the pool default: leave one of the two out")
        pools["default"] = call["workers"]
    return run(call.settings(), call["app"], pools or {"default": 1})


def stop(call: Call) -> int:
    """Ask the running orchestrator to finish, and wait until it has."""
    import signal

    from rota.orchestrator.exclusive import holder
    from rota.orchestrator.run import lock_path

    with call.store() as store:
        path = lock_path(store.database.beside)
    pid = holder(path)
    if pid is None:
        raise Refused("no orchestrator is running here")
    for _ in range(2 if call["now"] else 1):
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.05 if call["now"] else 0)
    deadline = time.monotonic() + STOP_WITHIN
    while holder(path) == pid:
        if not call["graceful"] and time.monotonic() > deadline:
            raise Refused(f"orchestrator {pid} has not stopped within {STOP_WITHIN:g}s: `--now` ends its jobs")
        time.sleep(0.02)
    call.say(f"orchestrator {pid} stopped")
    return 0


def status(call: Call) -> int:
    """How the orchestrator and its slots are; exit code 6 when it is not running."""
    from rota.orchestrator.exclusive import holder
    from rota.orchestrator.run import lock_path

    with call.store() as store:
        pid = holder(lock_path(store.database.beside))
        document = _document(store, pid)
        if call.json:
            call.document(document)
        else:
            call.lines(_page(call, document))
    return 0 if pid is not None else 6


def scale(call: Call) -> int:
    """How many workers a queue should have; the running orchestrator follows at once."""
    from rota.store.host import host_id

    with call.store() as store:
        for queue, count in call["q=n"]:
            store.slots.scale("main", host_id(), queue, count)
            call.say(f"{queue} scaled to {count}")
    return 0


def reset(call: Call) -> int:
    """Clear a slot's restarts, so that it is filled again."""
    with call.store() as store:
        store.slots.reset(call["slot"], bool(call["forget"]))
    call.say(f"{call['slot']} {'forgotten' if call['forget'] else 'reset'}")
    return 0


def _document(store: Store, pid: int | None) -> dict[str, Any]:
    live = [row for row in store.database.execute("orchestrator.live", {}) if row[6] == pid]
    slots = store.slots.all()
    pools: dict[str, int] = {}
    for slot in slots:
        if slot.wanted:
            pools[slot.queue] = pools.get(slot.queue, 0) + 1
    return {
        "status": live[0][1] if live else "stopped",
        "pid": pid,
        "host": live[0][5] if live else None,
        "started_at": format_instant(live[0][7]) if live else None,
        "last_reconcile_at": format_instant(live[0][8]) if live and live[0][8] else None,
        "pools": pools,
        "slots": [_slot(slot, store) for slot in slots],
        "settings": {name: getattr(store.settings, name) for name in store.settings._fields},
    }


def _slot(slot: Slot, store: Store) -> dict[str, Any]:
    history = slot.history
    wait = slot.start_at - store.now() if slot.start_at is not None else None
    return {
        "name": slot.name,
        "status": slot.status,
        "worker_id": slot.worker,
        "restarts": len(history.restarts),
        "lifetime_restarts": history.lifetime,
        "starts_in": max(0.0, wait / 1e6) if wait is not None else None,
        "failure_reason": history.failure_reason,
    }


def _page(call: Call, document: dict[str, Any]) -> list[str]:
    head = f"orchestrator {document['status']}" + (f", pid {document['pid']}" if document["pid"] else "")
    rows = []
    for slot in document["slots"]:
        wait = format_duration(round(slot["starts_in"] * 1e6)) if slot["starts_in"] else ""
        about = slot["failure_reason"] or (f"starts in {wait}" if wait else "")
        restarts = f"{slot['restarts']} now, {slot['lifetime_restarts']} in all"
        rows.append((slot["name"], slot["status"], slot["worker_id"] or "", restarts, about))
    return [head, *columns(call, ("SLOT", "STATUS", "WORKER", "RESTARTS", "ABOUT"), rows)]
