"""Topics of the event log: names in segments, where `*` in a pattern spans any number of them."""

from __future__ import annotations

from rota.core.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ROOTS = ("queue", "worker", "source", "schedule", "system", "*")
LONGEST, MOST = 200, 50


def checked(patterns: Sequence[str]) -> tuple[str, ...]:
    """The same patterns, or what is wrong with one."""
    if len(patterns) > MOST:
        raise BadInput(f"{len(patterns)} topics are too many: at most {MOST}, and * spans segments")
    for pattern in patterns:
        if len(pattern) > LONGEST or pattern.partition(":")[0] not in ROOTS or not pattern.isprintable():
            example = "queue:status, queue:tag:*, queue:jobs, worker:*:status or system:health"
            raise BadInput(f"{pattern[:LONGEST]!r} is not a topic: write for example {example}")
    return tuple(patterns)


def first_match(patterns: Sequence[str], topics: Sequence[str]) -> str | None:
    """The first of these topics that a pattern wants; no patterns want everything."""
    for topic in topics:
        if not patterns or any(matches(pattern, topic) for pattern in patterns):
            return topic
    return None


def matches(pattern: str, topic: str) -> bool:
    return _match(pattern.split(":"), topic.split(":"))


def _match(pattern: Sequence[str], topic: Sequence[str]) -> bool:
    if not pattern:
        return not topic
    head, rest = pattern[0], pattern[1:]
    if head == "*":
        return any(_match(rest, topic[skip:]) for skip in range(1, len(topic) + 1))
    return bool(topic) and topic[0] == head and _match(rest, topic[1:])
