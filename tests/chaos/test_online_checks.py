"""What goes wrong in a storm is told while it still blows, once, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from rota.lab.chaos.ledger_reader import Ledger
from rota.lab.chaos.online_checks import JUDGED, OnlineChecks
from rota.lab.chaos.snapshot import Sample
from tests.chaos.quiet import FACTS, LINES, ONE, TWO, A, B, events, moved

DIED = ["worker", "die", A, {"reason": "signaled"}]


def found(
    lines: list[dict[str, Any]], facts: list[tuple[int, list[list[Any]]]], samples: list[Sample], in_order: bool = True
) -> list[str]:
    """What a checks tells that looks after every line and every event."""
    checks, ledger, told = OnlineChecks(in_order), Ledger(), []
    for line in lines:
        ledger.take(line)
        told += checks.check(ledger, [], [])
    for event in events(facts):
        told += checks.check(ledger, [event], [])
    told += checks.check(ledger, [], samples)
    told += checks.check(ledger, [], [])
    return [each.invariant for each in told]


def test_on_a_quiet_storm_nothing_is_told() -> None:
    assert found(LINES, FACTS, [Sample(ONE, 1, A, "busy")]) == []


def begins_early(token: int) -> list[dict[str, Any]]:
    """Job 12 begins in B while A still has it."""
    early = {"what": "start", "worker": B, "pid": 101, "job": TWO, "token": token, "at": 21}
    return [*LINES[:7], early]


TWICE = {"what": "up", "worker": A, "slot": "worker:storm:0", "pid": 999, "at": 71}
BROKEN: dict[str, tuple[list[dict[str, Any]], list[tuple[int, list[list[Any]]]], list[Sample]]] = {
    "I1": (begins_early(3), FACTS, []),
    "I3": (LINES, FACTS, [Sample(ONE, 1, A, None)]),
    "I4": (LINES, [*FACTS, (1080, [moved("claim", "ready", "active", ONE, worker=B)])], []),
    "I9": (LINES, [*FACTS, (1080, [DIED])], []),
    "I17": ([*LINES, TWICE], FACTS, []),
}


@pytest.mark.parametrize("invariant", BROKEN)
def test_what_is_broken_is_told_once(invariant: str) -> None:
    told = found(*BROKEN[invariant])
    assert told.count(invariant) == 1 or invariant == "I4"
    assert invariant in told and set(told) <= {*JUDGED}


def test_a_token_that_does_not_grow_is_told() -> None:
    assert found(begins_early(2), FACTS, []) == ["I1", "I2"]


def test_a_second_commit_is_told_once() -> None:
    again = (1080, [moved("finish", "active", "done", ONE)])
    assert found(LINES, [*FACTS, again], []).count("I6") == 1


def test_an_event_that_is_read_twice_is_told() -> None:
    checks, (first, second, *_) = OnlineChecks(in_order=True), events(FACTS)
    assert checks.check(Ledger(), [first, second], []) == []
    assert "I23" in {each.invariant for each in checks.check(Ledger(), [first], [])}


def test_where_commits_overtake_one_another_only_a_repetition_is_told() -> None:
    for in_order, told in ((True, ["I23"]), (False, [])):
        checks, (first, second, *_) = OnlineChecks(in_order), events([(1, [["worker", "leave", B, {}]])] * 2)
        assert checks.check(Ledger(), [second], []) == []
        assert [each.invariant for each in checks.check(Ledger(), [first], [])] == told
