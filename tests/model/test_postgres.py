"""The same invariants on PostgreSQL alone, whose tables are looked at after every step."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import StoreMachine

PHASES = [Phase.generate]  # to look for the shortest failure would take many minutes here
EXAMPLES, SECONDS = (1000, 7200) if os.environ.get("HYPOTHESIS_PROFILE") == "long" else (12, 300)


class PostgresMachine(StoreMachine):
    """Everything on PostgreSQL alone."""

    checked = "postgres"


@pytest.mark.timeout(SECONDS)
def test_every_invariant_holds_on_postgres_after_every_step() -> None:
    run_state_machine_as_test(PostgresMachine, settings=settings(max_examples=EXAMPLES, phases=PHASES))
