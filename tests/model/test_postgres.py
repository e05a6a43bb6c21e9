"""The same invariants on PostgreSQL alone, whose tables are looked at after every step."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import StoreMachine
from tests.support.tiers import is_deep

pytestmark = pytest.mark.postgres

EXAMPLES = 1000 if is_deep() else 6


class PostgresMachine(StoreMachine):
    """Everything on PostgreSQL alone."""

    checked = "postgres"


@pytest.mark.timeout(7200 if is_deep() else 300)
def test_every_invariant_holds_on_postgres_after_every_step() -> None:
    # To look for the shortest failure would take many minutes here.
    run_state_machine_as_test(PostgresMachine, settings=settings(max_examples=EXAMPLES, phases=[Phase.generate]))
