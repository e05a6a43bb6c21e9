"""The events page: topics, types, and every fact that the code tells, read from its source."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import rota
from docs.pages.markdown import code, join, sentence, table
from rota.core import job
from rota.core.event import JobMoved, change
from rota.core.topic import LONGEST, MOST, topics_of
from rota.live import feed

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(rota.__file__).parent
INTRODUCTION = """\
# Events

Every transaction that changes something appends one event to the log: when, by whom, and all the facts of it.
`rota events` shows the facts one by one, `--topic` those of a topic; their shape is [Event](json.md#event). The live
feed (`rota events --follow`, `app.events`, `/api/v1/events`) begins with how each topic stands and goes on with
changes; their shape is [Change](json.md#change). [How to follow it over HTTP](../howto/http.md#follow) tells what a
reader may rely on."""
PATTERNS = f"""\
In a pattern `*` spans any number of segments; at most {MOST} patterns of at most {LONGEST} characters are asked for
at once. The live feed tells of a slot, and of the worker in it, under the slot's name: `worker:tag:0:status`. A fact
of the log stands under these topics:"""
MOVED = """\
Each fact has the queue, the state before and after, and the ids of all jobs that moved so.
[States](states.md#job) has the table of moves."""
TYPES = {
    feed.SNAPSHOT: "how it stands when a reader begins",
    "worker_update": "a worker or a slot",
    "queue_update": "a queue, or all together",
    "job_update": "a move of one job; none is left out",
    "source_update": "a source",
    "schedule_update": "a schedule",
    "health_update": "the health of the whole; in the log, facts on slots, orchestrators, tokens and the store",
    feed.RESYNC: "something was missed: what is known of these topics is to be forgotten, a new snapshot follows",
}
MOVES = {
    job.ADD: "it was added",
    job.UNBLOCK: "what it waited for is over, or there is room for it",
    job.BLOCK: "it waits for another job or for room",
    job.DUE: "its time has come",
    job.CLAIM: "a worker took it",
    job.FINISH: "its worker reported success",
    job.FAIL: "its worker reported failure",
    job.SNOOZE: "its worker asked to be called later",
    job.RELEASE: "its worker gave it back",
    job.EXPIRE: "the lease of its claim ran out",
    job.DIE: "its worker died",
    job.FORCE: "a person settled it without a claim",
    job.CANCEL: "a person called it off",
    job.DEBOUNCE: "its key was added again, which puts it off",
    job.RETRY: "a person lets it run again",
}
FACTS = {
    "job": {
        "depend": "it waits for one more job",
        "undepend": "it waits for one job less",
        "renew": "the lease of its claim was extended by hand",
        "unfenced": "it was settled by a person though a worker has it",
    },
    "queue": {
        "make": "it was named for the first time",
        "set": "its limits were changed",
        "pause": "nothing of it starts any more; by a person or by its breaker",
        "resume": "it goes on",
    },
    "worker": {
        "register": "it began its life",
        "heartbeat": "one that was taken for dead speaks again",
        "report": "what it says of itself has changed",
        "stop": "it was asked to finish and leave",
        "leave": "it left in peace",
        "die": "it is dead; its certificate has the rest",
        "orphan": "its orchestrator is gone; it goes on under a lease",
        "mend": "it was shown as busy or idle and was not; that was corrected",
        "leak": "a process that one of its jobs had left behind",
    },
    "slot": {
        "make": "there is a new one",
        "scale": "a crew was given another number of slots of a queue",
        "move": "it is in another state",
        "health": "the health of its worker has changed",
        "snapshot": "its health now and then, with the setting `health_history`",
        "reset": "its history of restarts was cleared",
        "forget": "it was removed",
    },
    "orchestrator": {
        "start": "it began",
        "drain": "it was asked to stop",
        "end": "it stopped",
        "lapse": "its lease ran out",
        "taken over": "another took over its slots",
    },
    "source": {
        "make": "it was declared for the first time",
        "set": "it was declared otherwise",
        "fill": "it added jobs",
        "fill_failed": "looking for jobs went wrong",
        "forget": "it was removed",
    },
    "schedule": {
        "make": "it was added",
        "set": "it was changed",
        "fire": "its time came, and it added a job",
        "run": "a person let it add a job now",
        "skip": "its time came and was left out, by its policy for missed runs",
        "refuse": "its time came, and the job could not be added",
        "pause": "it adds nothing any more",
        "resume": "it goes on",
        "remove": "it was removed",
    },
    "token": {"create": "it was made", "revoke": "it is no longer accepted"},
    "store": {"restore": "numbers were left out after a backup was restored"},
}


def page() -> str:
    return join(
        INTRODUCTION,
        "## Topics",
        PATTERNS,
        table(("about", "topics"), [(noun, ", ".join(map(code, _topics(noun)))) for noun in FACTS]),
        "## Types",
        table(("type", "tells of"), [(code(name), sentence(TYPES[name])) for name in feed.TYPES]),
        "## Moves of jobs",
        MOVED,
        table(("verb", "meaning"), [(code(verb), sentence(text)) for verb, text in MOVES.items()]),
        "## Other facts",
        "Each has the name or id of what it is about, and the details of its row.",
        table(("about", "verb", "meaning", "details"), _facts()),
    )


def _topics(noun: str) -> tuple[str, ...]:
    if noun == "job":
        return topics_of(JobMoved(job.ADD, "tag", None, job.READY, [1]))
    return topics_of(change(noun, "make", {"queue": "tag", "worker": "worker-1a2b3c4d"}.get(noun, "nightly"), {}))


def _facts() -> Iterator[tuple[str, ...]]:
    known = told()
    for noun, verbs in FACTS.items():
        for verb, text in verbs.items():
            yield noun, code(verb), sentence(text), ", ".join(map(code, sorted(known[noun, verb])))


@cache
def told() -> dict[tuple[str, str], set[str]]:
    """Every noun and verb that the source tells of, with the names of the details that go with them."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                for fact in _told_by(node, node.func.attr):
                    found.setdefault(fact, set()).update(word.arg for word in node.keywords if word.arg)
    return found


def _told_by(call: ast.Call, name: str) -> list[tuple[str, str]]:
    """The facts that a call may record: `changed` and `note` begin with noun and verb; `_directive` is of queues."""
    match name, call.args:
        case "changed" | "note", [ast.Constant(value=str() as noun), verb, *_]:
            return [(noun, each) for each in _verbs(verb)]
        case "_directive", [_, verb, *_]:
            return [("queue", each) for each in _verbs(verb)]
    return []


def _verbs(node: ast.expr) -> list[str]:
    match node:
        case ast.Constant(value=str() as verb):
            return [verb]
        case ast.IfExp(body=one, orelse=other):
            return [*_verbs(one), *_verbs(other)]
        case ast.Attribute(value=ast.Name(id=module), attr=name):  # such as workers.DIE, of rota.core.worker
            return [str(getattr(import_module(f"rota.core.{module.removesuffix('s')}"), name))]
        case ast.Name(id="verb"):  # handed on by `_directive`, whose callers are read instead
            return []
    raise ValueError(f"the page on events cannot read the verb in: {ast.unparse(node)}")
