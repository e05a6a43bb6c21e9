"""The online checks report each violation during the storm, once, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rota.core.event import WorkerChanged
from rota.lab.chaos.invariants import JUDGED_ONLINE
from rota.lab.chaos.ledger_reader import Ledger
from rota.lab.chaos.scenario import OnlineChecks
from rota.lab.chaos.snapshot import Sample
from tests.chaos.quiet import FACTS, LINES, ONE, TWO, A, B, events, moved

if TYPE_CHECKING:
    from tests.chaos.quiet import Log

DIED = WorkerChanged("die", A, {"reason": "signaled"})


def violated(lines: list[dict[str, Any]], facts: Log, samples: list[Sample], in_order: bool = True) -> list[str]:
    """Return what the checks report if they run after every line and every event."""
    checks, ledger, violations = OnlineChecks(in_order), Ledger(), []
    for line in lines:
        ledger.take(line)
        violations += checks.check(ledger, [], [])
    for event in events(facts):
        violations += checks.check(ledger, [event], [])
    violations += checks.check(ledger, [], samples)
    violations += checks.check(ledger, [], [])
    return [violation.invariant for violation in violations]


def test_a_quiet_storm_yields_no_violation() -> None:
    assert violated(LINES, FACTS, [Sample(ONE, 1, A, "busy")]) == []


def begins_early(token: int) -> list[dict[str, Any]]:
    """Job 12 begins in B while A still has it."""
    early = {"what": "start", "worker": B, "pid": 101, "job": TWO, "token": token, "at": 21}
    return [*LINES[:7], early]


TWICE = {"what": "up", "worker": A, "slot": "worker:storm:0", "pid": 999, "at": 71}
BROKEN: dict[str, tuple[list[dict[str, Any]], Log, list[Sample]]] = {
    "I1": (begins_early(3), FACTS, []),
    "I3": (LINES, FACTS, [Sample(ONE, 1, A, None)]),
    "I4": (LINES, [*FACTS, (1080, [moved("claim", "ready", "active", ONE, worker=B)])], []),
    "I9": (LINES, [*FACTS, (1080, [DIED])], []),
    "I17": ([*LINES, TWICE], FACTS, []),
}


@pytest.mark.parametrize("invariant", BROKEN)
def test_each_violation_is_reported_once(invariant: str) -> None:
    reported = violated(*BROKEN[invariant])
    assert reported.count(invariant) == 1 or invariant == "I4"
    assert invariant in reported and set(reported) <= {*JUDGED_ONLINE}


def test_a_token_that_does_not_grow_is_reported() -> None:
    assert violated(begins_early(2), FACTS, []) == ["I1", "I2"]


def test_a_second_commit_is_reported_once() -> None:
    again = (1080, [moved("finish", "active", "done", ONE)])
    assert violated(LINES, [*FACTS, again], []).count("I6") == 1


def test_an_event_that_is_read_twice_is_reported() -> None:
    checks, (first, second, *_) = OnlineChecks(in_order=True), events(FACTS)
    assert checks.check(Ledger(), [first, second], []) == []
    assert "I23" in {violation.invariant for violation in checks.check(Ledger(), [first], [])}


def test_only_a_repeated_event_is_reported_where_commits_may_overtake_each_other() -> None:
    for in_order, reported in ((True, ["I23"]), (False, [])):
        checks, (first, second, *_) = OnlineChecks(in_order), events([(1, [WorkerChanged("leave", B, {})])] * 2)
        assert checks.check(Ledger(), [second], []) == []
        assert [violation.invariant for violation in checks.check(Ledger(), [first], [])] == reported
