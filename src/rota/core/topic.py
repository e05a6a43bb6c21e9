"""Topics of the event log: names in segments, where `*` in a pattern spans any number of them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def matches(pattern: str, topic: str) -> bool:
    return _match(pattern.split(":"), topic.split(":"))


def _match(pattern: Sequence[str], topic: Sequence[str]) -> bool:
    if not pattern:
        return not topic
    head, rest = pattern[0], pattern[1:]
    if head == "*":
        return any(_match(rest, topic[skip:]) for skip in range(1, len(topic) + 1))
    return bool(topic) and topic[0] == head and _match(rest, topic[1:])
