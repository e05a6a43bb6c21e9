"""Queues: their counts and limits, pause and resume."""

from __future__ import annotations

from rota import documents
from rota.cli.invocation import age, columns
from rota.cli.parser import NO_LIMIT
from rota.cli.verb import Argument, Option, verb
from rota.core.errors import BadInput, NotFound
from rota.core.queue import ALL, Queue
from rota.store.directives import until_acknowledged
from rota.store.queues import LIMITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call
    from rota.core.times import Instant
    from rota.store.queues import QueueStatus
    from rota.store.store import Store


@verb("queue list", "queues with their counts and limits", "rota queue list")
def list_queues(call: Call) -> int:
    with call.store() as store:
        statuses = store.queues.list()
        queues = [documents.queue(status) for status in statuses]
        empty = "no queues; one comes to be with its first job: rota add 'Title' --queue NAME"
        return call.listing(queues, lambda: _table(call, statuses, store.now()), empty)


@verb(
    "queue set",
    "set limits of a queue; none removes one",
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
)
def set_limits(call: Call) -> int:
    limits = {limit: None if call[limit] == NO_LIMIT else call[limit] for limit in LIMITS if call[limit] is not None}
    if not limits:
        raise BadInput("queue set needs a limit to set, for example --max-depth 1000; none removes one")
    with call.store() as store:
        queue = store.queues.set(call["q"], **limits)
        if call.json:
            call.document(documents.queue(_status(store, queue.name)))
        else:
            call.say(f"queue {queue.name}: {_limits(queue) or 'no limits'}")
    return 0


@verb(
    "pause",
    "let nothing new be claimed, from one queue or from all; it persists",
    "rota pause tag --reason 'model is being replaced'",
    (Argument("Q", "the queue; without one, all", "queue", required=False),),
    (Option("--reason", "for those who ask why", "TEXT"),),
)
def pause(call: Call) -> int:
    with call.store() as store:
        changed = store.queues.pause(call["q"], call["reason"])
        code = _answer(call, "paused", changed)
        until_acknowledged(store, f"{call['q'] or 'everything'} is paused")
        return code


@verb(
    "resume",
    "the opposite of pause; resuming all resumes each queue too",
    "rota resume tag",
    (Argument("Q", "the queue; without one, all", "queue", required=False),),
)
def resume(call: Call) -> int:
    with call.store() as store:
        changed = store.queues.resume(call["q"])
    return _answer(call, "resumed", changed)


def _answer(call: Call, word: str, changed: list[str]) -> int:
    queues = ", ".join("everything" if name == ALL else f"queue {name}" for name in changed)
    text = f"{queues} {word}" if changed else f"nothing to do: {call['q'] or 'everything'} was {word} already"
    return call.answer({word: changed}, text)


def _status(store: Store, name: str) -> QueueStatus:
    for status in store.queues.list():
        if status.queue.name == name:
            return status
    raise NotFound(f"there is no queue {name}")


def _limits(queue: Queue) -> str:
    named = ("max_depth", "rate", "concurrency", "per_key", "breaker", "fence")
    set_ones = [(name.replace("_", "-"), getattr(queue, name)) for name in named]
    return " ".join(f"{name}={value}" for name, value in set_ones if value is not None)


def _table(call: Call, statuses: list[QueueStatus], now: Instant) -> list[str]:
    heads = ("QUEUE", "STATUS", "READY", "ACTIVE", "BLOCKED", "SCHEDULED", "DONE", "FAILED", "OLDEST", "LIMITS")
    counted = ("ready", "active", "blocked", "scheduled", "done", "failed")
    rows = []
    for status in statuses:
        paused = f" paused by {status.paused_by}" if status.paused_by else ""
        because = f" ({status.queue.pause_reason})" if status.queue.pause_reason else ""
        counts = [status.counts[state] for state in counted]
        remarks = f"{_limits(status.queue)}{paused}{because}".strip()
        state = "paused" if status.paused_by else "open"
        rows.append((status.queue.name, state, *counts, age(status.oldest_ready_at, now), remarks))
    return columns(call, heads, rows)
