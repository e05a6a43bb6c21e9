"""Topics of the event log: which a fact belongs to, and patterns of them, where `*` spans any number of segments."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from rota.core.errors import BadInput
from rota.core.event import (
    JobChanged,
    JobMoved,
    OrchestratorChanged,
    OtherChanged,
    QueueChanged,
    ScheduleChanged,
    SlotChanged,
    SourceChanged,
    StoreChanged,
    TokenChanged,
    UnknownFact,
    WorkerChanged,
)
from rota.core.queue import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.core.event import Fact

ROOTS = ("queue", "worker", "source", "schedule", "system", "*")
LONGEST, MOST = 200, 50


def topics_of(fact: Fact) -> tuple[str, ...]:
    """Return the topics that a fact belongs to, the narrowest first."""
    match fact:
        case JobMoved():
            return topics_of_jobs(fact.queue)
        case JobChanged():
            return ("queue:jobs",)
        case QueueChanged(_, queue):
            return ("queue:status",) if queue == ALL else (f"queue:{queue}:status", "queue:status")
        case WorkerChanged(_, worker, details):
            slot = details.get("slot")
            return (f"{slot}:status" if slot else f"worker:-:{worker}:status",)
        case SourceChanged() | ScheduleChanged():
            return (f"{fact.noun}:{fact.subject}:status",)
        case SlotChanged() | OrchestratorChanged() | TokenChanged() | StoreChanged() | OtherChanged() | UnknownFact():
            return ("system:health",)
        case other:
            assert_never(other)


def topics_of_jobs(queue: str) -> tuple[str, ...]:
    """Return the topics of the jobs of a queue, the narrowest first."""
    return f"queue:{queue}:jobs", "queue:jobs"


def checked(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns unchanged, or refuse them with what is wrong with one."""
    if len(patterns) > MOST:
        raise BadInput(f"{len(patterns)} topics are too many: at most {MOST}, and * spans segments")
    for pattern in patterns:
        if len(pattern) > LONGEST or pattern.partition(":")[0] not in ROOTS or not pattern.isprintable():
            example = "queue:status, queue:tag:*, queue:jobs, worker:*:status or system:health"
            raise BadInput(f"{pattern[:LONGEST]!r} is not a topic: write for example {example}")
    return tuple(patterns)


def first_match(patterns: Sequence[str], topics: Sequence[str]) -> str | None:
    """Return the first of these topics that a pattern matches; without patterns, the first one."""
    for topic in topics:
        if not patterns or any(matches(pattern, topic) for pattern in patterns):
            return topic
    return None


def wanting(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return a function that says whether any of the patterns matches a topic, and caches its answers.

    Without patterns every topic matches.
    """
    answers: dict[str, bool] = {}

    def wants(topic: str) -> bool:
        if topic not in answers:
            answers[topic] = not patterns or any(matches(pattern, topic) for pattern in patterns)
        return answers[topic]

    return wants


def matches(pattern: str, topic: str) -> bool:
    """Return whether a pattern matches a topic.

    It takes time linear in both, because strangers choose them: a subscriber the pattern, a worker's name the topic.
    """
    if "*" not in pattern:
        return pattern == topic
    # Each segment of the pattern, also a star, takes at least one of the topic.
    if pattern.count(":") > topic.count(":"):
        return False
    head, *runs = _literal_runs(pattern)
    text, place = f":{topic}:", 0
    if not runs or not text.startswith(head):
        return text == head
    # `place` is that of the colon before the first segment that is not matched yet. Each run has a star before it, and
    # its leftmost place leaves most of the topic for the runs that follow.
    place = len(head) - 1
    for run in runs:
        place = text.find(":", place + 1)
        if place < 0:
            return False
        if run is not runs[-1]:
            place = text.find(run, place)
            if place < 0:
                return False
            place += len(run) - 1
    return text.endswith(runs[-1]) and len(text) - len(runs[-1]) >= place


@lru_cache(maxsize=1024)
def _literal_runs(pattern: str) -> tuple[str, ...]:
    """Return the literal parts before, between and after the stars, each with the colons around it."""
    runs = [":"]
    for segment in pattern.split(":"):
        if segment == "*":
            runs.append(":")
        else:
            runs[-1] += f"{segment}:"
    return tuple(runs)
