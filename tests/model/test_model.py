"""The store keeps its invariants whatever is done to it, in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import StoreMachine
from tests.support import budget

SECONDS = 15


def test_every_invariant_holds_after_every_step() -> None:
    for number in budget.rounds(SECONDS):
        how = settings(max_examples=5, phases=[Phase.generate], database=None)
        machine = type("StoreMachine", (StoreMachine,), {})
        run_state_machine_as_test(seed(f"{budget.seed()} {number}")(machine), settings=how)


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_every_invariant_holds_in_many_programs() -> None:
    run_state_machine_as_test(StoreMachine, settings=settings(max_examples=3000, stateful_step_count=100))
