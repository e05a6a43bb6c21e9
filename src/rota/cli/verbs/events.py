"""`events`: the log of what happened, and the live feed."""

from __future__ import annotations

from rota.cli.invocation import columns, moment
from rota.cli.verb import Option, verb
from rota.core import queue as queues
from rota.core.event import JobMoved, QueueChanged, UnknownFact, WorkerChanged
from rota.live import fact_log
from rota.live.feed import follow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rota.cli.invocation import Call
    from rota.core.event import Fact
    from rota.documents import Document
    from rota.store.store import Store

_SHOWN_IDS = 5


@verb(
    "events",
    "what happened, oldest first; or, followed, how things stand and then what changes",
    "rota events --follow --topic 'queue:tag:*'",
    options=(
        Option("--follow", "the live feed: a snapshot, then changes; with --json one document per line"),
        Option("--topic", "only these; * spans segments; may be repeated", "T", many=True),
        Option("--after", "read on from the id of an event", "CURSOR"),
        Option("--limit", "at most so many transactions, the newest", "N", "count", default="50"),
    ),
)
def events(call: Call) -> int:
    patterns: list[str] = call["topic"] or []
    with call.store() as store:
        if call["follow"]:
            return _follow(call, store, patterns)
        if call["after"] is None:
            entries, _ = fact_log.newest(store, patterns, call["limit"] or 50)
        else:
            entries, _ = fact_log.after(store, patterns, call["after"], call["limit"])
    if call.json:
        call.document(fact_log.documents(entries))
    elif entries:
        rows = [(moment(entry.event.at), entry.event.actor, words(entry.fact)) for entry in entries]
        call.lines(columns(call, ("TIME", "ACTOR", "FACT"), rows))
    else:
        call.say("nothing happened on these topics" if patterns else "nothing happened yet")
    return 0


def _follow(call: Call, store: Store, patterns: list[str]) -> int:
    """Print the live feed until it is stopped; each change is printed before the next is awaited."""
    for document in follow(store, patterns, call["after"]):
        if call.json:
            call.record(document)
        else:
            call.say(f"{document['at'][:19]}Z  {change_words(document)}")
    return 0


def change_words(document: Document) -> str:
    """Describe a change of the live feed in words."""
    if job := document.get("job"):
        move = " -> ".join(state for state in (job.get("was"), job["status"]) if state)
        holder = f", {job['worker']}" if job.get("worker") else ""
        return f"{job.get('verb', 'now')} job {job['id']} of queue {job['queue']}: {move}{holder}"
    if queue := document.get("queue"):
        name = queue["queue_type"] or "all queues"
        return f"{name}: {queue['pending']} pending, {queue['running']} running, {queue['completed']} completed"
    if worker := document.get("worker"):
        detail = "".join(f", {text}" for text in (worker.get("verb"), worker.get("text")) if text)
        in_hand = f", job {worker['current_job']}" if worker["current_job"] else ""
        return f"{worker['component']} ({worker['name']}): {worker['status']}{in_hand}{detail}"
    if health := document.get("health"):
        return "; ".join([f"system {health['status']}", *health["errors"]])
    return "resync: some of what happened is no longer known"


def words(fact: Fact) -> str:
    """Describe a fact in words."""
    match fact:
        case JobMoved(verb, queue, old, new, ids, details):
            named = ", ".join(map(str, ids[:_SHOWN_IDS]))
            hidden = f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
            move = " -> ".join(state for state in (old, new) if state) if new else "forgotten"
            return f"{verb} job{'s' * (len(ids) != 1)} {named}{hidden} of queue {queue}: {move}{_in_brackets(details)}"
        case UnknownFact(stored):
            return f"unknown to this version: {stored}"
        case QueueChanged(verb, queues.ALL, details):
            return f"{verb} all queues{_in_brackets(details)}"
        case WorkerChanged(verb, worker, details):
            return f"{verb} {worker}{_in_brackets(details)}"
        case _:
            return f"{fact.verb} {fact.noun} {fact.subject}{_in_brackets(fact.details)}"


def _in_brackets(details: Mapping[str, Any]) -> str:
    text = ", ".join(f"{name} {value}" for name, value in details.items() if value is not None)
    return f" ({text})" if text else ""
