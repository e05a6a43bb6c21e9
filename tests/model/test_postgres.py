"""The same invariants on PostgreSQL, and the two databases driven in step: they answer and tell the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.instep import in_step
from tests.model.machine import StoreMachine
from tests.support.stores import do_not_wait_for_the_disk, drop, make_store

if TYPE_CHECKING:
    from rota.store.store import Store

PHASES = [Phase.generate]  # to look for the shortest failure would take many minutes here
EXAMPLES, SECONDS = (1000, 7200) if os.environ.get("HYPOTHESIS_PROFILE") == "long" else (12, 300)


class PostgresMachine(StoreMachine):
    """Everything on PostgreSQL alone."""

    def make_store(self) -> Store:
        self.postgres = make_store("postgres", self.folder, self.clock)
        return self.postgres

    def teardown(self) -> None:
        drop(self.postgres)
        super().teardown()


class BothMachine(PostgresMachine):
    """Everything on both; the tables that are checked are SQLite's, the answers both's."""

    def make_store(self) -> Store:
        file = make_store("sqlite", self.folder, self.clock)
        do_not_wait_for_the_disk(file)
        return in_step(file, super().make_store())


@pytest.mark.timeout(SECONDS)
def test_every_invariant_holds_on_postgres_after_every_step() -> None:
    run_state_machine_as_test(PostgresMachine, settings=settings(max_examples=EXAMPLES, phases=PHASES))


@pytest.mark.timeout(SECONDS)
def test_both_databases_answer_the_same_after_every_step() -> None:
    run_state_machine_as_test(BothMachine, settings=settings(max_examples=2 * EXAMPLES, phases=PHASES))
