"""`events`: the log of what happened, and the live feed."""

from __future__ import annotations

from rota.cli.output import columns, moment
from rota.cli.verb import Option, verb
from rota.core.queue import ALL
from rota.live import event_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call
    from rota.documents import Document, Fact
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
            entries, _ = event_log.newest(store, patterns, call["limit"] or 50)
        else:
            entries, _ = event_log.after(store, patterns, call["after"], call["limit"])
    if call.json:
        call.document(event_log.documents(entries))
    elif entries:
        rows = [(moment(event.at), event.actor, words(fact)) for event, fact, _ in entries]
        call.lines(columns(call, ("TIME", "ACTOR", "FACT"), rows))
    else:
        call.say("nothing happened on these topics" if patterns else "nothing happened yet")
    return 0


def _follow(call: Call, store: Store, patterns: list[str]) -> int:
    """Print the live feed until it is stopped; each change is printed before the next is awaited."""
    from rota.live.feed import follow

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
    noun, verb, which, *rest = fact
    if noun == "job" and len(rest) > 1:
        was, status, ids, *more = rest
        named = ", ".join(map(str, ids[:_SHOWN_IDS]))
        hidden = f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
        subject = f"job{'s' * (len(ids) != 1)} {named}{hidden} of queue {which}"
        move = " -> ".join(state for state in (was, status) if state) if status else "forgotten"
        return f"{verb} {subject}: {move}{_facts(more[0] if more else {})}"
    subject = "all queues" if noun == "queue" and which == ALL else which if noun == "worker" else f"{noun} {which}"
    return f"{verb} {subject}{_facts(rest[0])}"


def _facts(facts: Document) -> str:
    text = ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
    return f" ({text})" if text else ""
