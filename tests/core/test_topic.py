"""Topic patterns: `*` spans segments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.topic import LONGEST, matches
from tests.support.steps import steps

SEGMENTS = st.lists(st.sampled_from(["queue", "worker", "tag", "0", "status"]), min_size=1, max_size=5)


@given(SEGMENTS)
def test_a_topic_matches_itself_and_a_star(segments: list[str]) -> None:
    assert matches(":".join(segments), ":".join(segments))
    assert matches("*", ":".join(segments))


@given(SEGMENTS, SEGMENTS)
def test_without_a_star_only_the_same_topic_matches(pattern: list[str], topic: list[str]) -> None:
    assert matches(":".join(pattern), ":".join(topic)) == (pattern == topic)


@given(SEGMENTS, st.data())
def test_a_star_stands_for_any_run_of_segments(topic: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(topic) - 1))
    end = data.draw(st.integers(start + 1, len(topic)))
    assert matches(":".join([*topic[:start], "*", *topic[end:]]), ":".join(topic))


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        ("queue:*:status", "queue:tag:status"),
        ("queue:tag:*", "queue:tag:status"),
        ("worker:*:status", "worker:tag:0:status"),
        ("worker:tag:*:status", "worker:tag:0:status"),
        ("worker:*:status", "worker:-:worker-00000001:status"),
    ],
)
def test_the_patterns_of_the_design_match(pattern: str, topic: str) -> None:
    assert matches(pattern, topic)


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        ("queue:*:status", "queue:status"),
        ("queue:*:tag:*:tag:status", "queue:a:b:c:tag:status"),
        ("queue:*", "queue"),
        ("queue:tag:*", "queue:library:status"),
        ("queue", "queue:tag"),
        ("queue:tag", "queue"),
        ("que*", "queue"),
    ],
)
def test_others_do_not(pattern: str, topic: str) -> None:
    assert not matches(pattern, topic)


SOME = st.lists(st.sampled_from(["*", "a", "b", "", "a*"]), min_size=1, max_size=6)


@given(SOME, SOME)
def test_a_pattern_means_what_its_definition_says(pattern: list[str], topic: list[str]) -> None:
    assert matches(":".join(pattern), ":".join(topic)) == by_definition(pattern, topic)


def by_definition(pattern: list[str], topic: list[str]) -> bool:
    if not pattern:
        return not topic
    if pattern[0] == "*":
        return any(by_definition(pattern[1:], topic[n:]) for n in range(1, len(topic) + 1))
    return topic[:1] == pattern[:1] and by_definition(pattern[1:], topic[1:])


@pytest.mark.parametrize("star", ["*", "*:a"])
def test_a_pattern_made_to_be_slow_to_match_is_not(star: str) -> None:
    pattern = f"worker:{':'.join([star] * ((LONGEST - 10) // (len(star) + 1)))}:b"
    assert len(pattern) <= LONGEST
    assert steps(lambda: matches(pattern, f"worker:{'a:' * LONGEST}status")) < 50 * LONGEST
