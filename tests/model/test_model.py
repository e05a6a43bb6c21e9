"""The store keeps its invariants whatever is done to it, in whatever order."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import StoreMachine

EXAMPLES, SECONDS = (3000, 7200) if os.environ.get("HYPOTHESIS_PROFILE") == "long" else (150, 120)


@pytest.mark.timeout(SECONDS)
def test_every_invariant_holds_after_every_step() -> None:
    run_state_machine_as_test(StoreMachine, settings=settings(max_examples=EXAMPLES))
