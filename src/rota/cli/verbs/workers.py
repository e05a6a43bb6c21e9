"""`worker register`, `heartbeat` and `deregister`: the life of a worker that nobody watches."""

from __future__ import annotations

from rota import documents
from rota.core.errors import UnknownWorker
from rota.core.worker import REGISTER_AGAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call


def register(call: Call) -> int:
    """Begin a worker's life."""
    with call.store(make=True) as store:
        worker = store.workers.register(call["name"], call["every"], call["pid"], call["queue"])
        if call.json:
            call.document(documents.worker(worker, worker.status))
        else:
            call.say(worker.id)
    return 0


def heartbeat(call: Call) -> int:
    """A sign of life; the answer is a word of advice, whatever the exit code."""
    id = call["id"]
    metrics = {name: call[name] for name in ("busy", "cpu", "memory", "completed") if call[name] is not None}
    with call.store() as store:
        try:
            advice = store.workers.heartbeat(id, metrics)
        except UnknownWorker:
            _advise(call, id, REGISTER_AGAIN)
            raise
    _advise(call, id, advice)
    return 0


def deregister(call: Call) -> int:
    """End a worker's life."""
    with call.store() as store:
        given_back = store.workers.deregister(call["id"])
    if call.json:
        call.document({"id": call["id"], "released": given_back})
    else:
        call.say(f"{call['id']} left, {given_back} job{'s' * (given_back != 1)} given back")
    return 0


def _advise(call: Call, id: str, advice: str) -> None:
    if call.json:
        call.document({"id": id, "advice": advice})
    else:
        call.say(advice)
